/* package_redirect.h - redirects of registries: which are followed, and where to. Called wherever
 * egress asks a registry: package_gate_answer.c, package_gate_zip.c, package_load.c. Pure.
 *
 * A registry leads to its own hosts only (package_source.h), with the scheme it was asked with, and
 * not for ever. Callers send no credentials to where it leads. */
#pragma once

#include "package_source.h"
#include "policy.h"

#define PACKAGE_REDIRECTS_MAX 3U /* of one request */
#define PACKAGE_REDIRECT_TARGET_MAX 2048

/* Is it a status whose Location is to be asked instead? */
bool package_redirect_is(int status);
/* Reads the Location of the answer to a request that was sent to `to`, and counts it. False: it is
 * not followed, and why has the reason; to and target are as they were. */
bool package_redirect_read(const struct package_hosts *h, const char *location, unsigned *count,
			   struct endpoint *to, char target[PACKAGE_REDIRECT_TARGET_MAX],
			   char why[POLICY_REASON_MAX]) MUST_USE;
