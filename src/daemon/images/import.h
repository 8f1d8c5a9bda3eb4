/* import.h - templates from archives that clients send: an OCI layout, a docker-archive or a root
 * file system, in a tar archive that may be compressed. Used by the interfaces.
 *
 * cordon-storage writes the archive to a file without a name in the storage folder (spool.h), gone
 * when no process has it open: no disk holds up cordond. When it is complete, cordon-storage finds
 * out its kind (STORAGE_SURVEY), and image_make.h makes the template: all of it, or nothing.
 * cordond reads only the configuration of the image. */
#pragma once

#include "daemon/images/image_make.h"

#define IMPORT_BYTES_MAX ((uint64_t)20 << 30) /* of an archive, with and without compression */
#define IMPORT_MAX 8 /* at a time, of all tenants. One of a tenant in any case */
#define IMPORT_TENANT_MAX 2

struct import;

struct import_spec {
	const char *name;    /* of the template: checked */
	const char *tag;     /* "": default */
	const char *user;    /* of commands that name none. "": as the image says */
	const char *workdir; /* likewise */
	bool public;	     /* other tenants may use it */
};

/* Begin an import. w ends once: when the template is there, or with the reason why not, which may
 * be before the whole archive has come (REASON_STORAGE_FULL: the disk of the server is nearly
 * full). on_room(arg): import_put() can take more. NULL: a name is malformed or taken, or there are
 * too many. w was not begun then. Texts are copied. */
struct import *import_begin(struct core *c, struct tenant *t, const struct import_spec *spec,
			    const struct store_actor *who, struct completion *w,
			    void (*on_room)(void *arg), void *arg, struct err *e) MUST_USE;

/* Take the next bytes of the archive, and return how many. on_room follows if fewer. */
size_t import_put(struct import *i, const uint8_t *data, size_t len);
/* The archive is complete. Called again from on_room until it returns true. */
bool import_end(struct import *i);
/* After w has ended without an error. */
struct template_version *import_made(const struct import *i);

/* At any time. Unfinished work is undone, and w does not end. */
void import_free(struct import *i);
