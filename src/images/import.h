/* import.h - templates from archives that clients send: an OCI layout, a docker-archive or a root
 * file system, in a tar archive that may be compressed. Used by the interfaces.
 *
 * The archive is written to a file without a name in the state folder, which is gone with this
 * process. When it is complete, cordon-storage finds out what it is (STORAGE_SURVEY), and
 * image_make.h makes the template: all of it, or nothing. cordond reads only the configuration of
 * the image. */
#pragma once

#include "image_make.h"

#define IMPORT_BYTES_MAX ((uint64_t)20 << 30) /* of an archive, with and without compression */
#define IMPORT_MAX 8			      /* at a time, of all tenants */
#define IMPORT_TENANT_MAX 2

struct import;

struct import_spec {
	const char *name;    /* of the template: checked */
	const char *tag;     /* "": default */
	const char *user;    /* of commands that name none; "": as the image says */
	const char *workdir; /* likewise */
	bool public;	     /* other tenants may use it */
};

/* NULL: a name is malformed or taken, or there are too many. Texts are copied. */
struct import *import_begin(struct core *c, struct tenant *t, const struct import_spec *spec,
			    const struct store_actor *who, struct err *e) MUST_USE;

/* The next bytes of the archive. REASON_STORAGE_FULL: the disk of the server is nearly full. */
int import_write(struct import *i, const void *data, size_t len, struct err *e) MUST_USE;

/* The archive is complete. w ends when the template is there, or with the reason why not. */
void import_finish(struct import *i, struct completion *w);
/* After w has ended without an error. */
struct template_version *import_made(const struct import *i);

/* At any time; what is not done is undone. */
void import_free(struct import *i);
