/* authority_make.h - opens the node's CA (node_ca.h). If there is none, it is created by
 * cordon-egress, which has OpenSSL. */
#pragma once

#include "node_ca.h"

/* The caller releases it. */
int authority_make(struct node_ca *ret, struct err *e) MUST_USE;
