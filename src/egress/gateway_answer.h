/* gateway_answer.h - reads a server's answer and passes it on to the program. Called by gateway.c.
 */
#pragma once

#include "gateway_base.h"

/* Progress of the answer. True if anything moved. */
bool gateway_answer(struct gateway *x);
