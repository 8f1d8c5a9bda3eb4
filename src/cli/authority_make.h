/* authority_make.h - opens the node's authority (authority.h). If there is none, cordon-egress,
 * which has OpenSSL, makes one. */
#pragma once

#include "authority.h"

/* The caller releases it. */
int authority_make(struct authority *ret, struct err *e) MUST_USE;
