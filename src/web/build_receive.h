/* build_receive.h - receives the body of a request as an archive of a build (build.h). */
#pragma once

#include "request.h"

/* Reads the body; when all of it is kept, answers with that status and no body. The caller has
 * checked that the client may; what the request's state was is not used any more. */
void build_receive(struct request *r, const char *tenant, const char *template_id, const char *hash,
		   int status);
