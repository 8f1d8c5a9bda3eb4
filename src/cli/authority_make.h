/* authority_make.h - the node's authority (authority.h), made if there is none: by cordon-egress,
 * which has OpenSSL. */
#pragma once

#include "authority.h"

/* The caller releases it. */
int authority_make(struct authority *ret, struct err *e) MUST_USE;
