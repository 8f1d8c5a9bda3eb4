/* gateway_head.h - writes the heads of requests for servers, with secrets put in, and of answers
 * for the cell, with secrets masked. Called by gateway_request.c and gateway_answer.c. */
#pragma once

#include "egress/gateway/gateway_base.h"

/* Write the head for the server, and a collected body behind it, to x->ask. */
int gateway_head_request(struct gateway *x, const char **ret_why) MUST_USE;
/* Add the head of an answer to the bytes for the cell. interim: a 1xx. */
int gateway_head_answer(struct gateway *x, const struct http1_response *a, bool interim) MUST_USE;
