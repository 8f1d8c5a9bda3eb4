/* build_upload.h - archives of clients, for the files of this folder. build.h has the rest. */
#pragma once

#include "daemon/images/build.h"

/* Open the folder. Remove files that do not fit the rows. */
int build_upload_setup(struct core *c, struct err *e) MUST_USE;
void build_upload_release(struct core *c);
/* Open an archive for reading. ERR_NOT_FOUND: it was not uploaded. */
int build_upload_open(struct core *c, const char *tenant, const char *template_id, const char *hash,
		      struct store_build_upload *ret, struct err *e) MUST_USE;
/* Delete some of a template's. False: the store refuses. */
bool build_upload_delete_of(struct core *c, const char *tenant, const char *template_id,
			    bool *ret_more);
