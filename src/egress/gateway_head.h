/* gateway_head.h - writes heads in both directions. */
#pragma once

#include "gateway_base.h"

/* Writes the head for the server, and a collected body behind it, to x->ask. */
int gateway_head_request(struct gateway *x, const char **ret_why) MUST_USE;
/* Adds the head of an answer to what is sent to the cell. interim: a 1xx. */
int gateway_head_answer(struct gateway *x, const struct http1_response *a, bool interim) MUST_USE;
