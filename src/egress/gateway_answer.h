/* gateway_answer.h - reads answers of servers. */
#pragma once

#include "gateway_base.h"

/* Progress of the answer. True if anything moved. */
bool gateway_answer(struct gateway *x);
