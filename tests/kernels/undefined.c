/* SPDX-License-Identifier: Apache-2.0
   Code of an external function that calls what no one defines. */
void nowhere(void);
void fake_0(void) { nowhere(); }
