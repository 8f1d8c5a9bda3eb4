/* ops.h - channel A, seen from the keeper: one table of what can be asked. */
#pragma once

#include "keeper.h"

/* Says HELLO and answers requests until the other end closes; then ends the cells. */
int ops_serve(int sock, const struct keeper *k);

/* Says HELLO with the reason why there will be no keeper. */
int ops_refuse(int sock, const struct err *why);
