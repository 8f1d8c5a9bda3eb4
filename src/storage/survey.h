/* survey.h - finds out what an archive for an import is: an image (OCI layout or docker-archive) or
 * a root file system, and where in it the layers are. For untrusted archives; in a worker that can
 * change no file but the two it was given. Called by op_survey.c. */
#pragma once

#include "buf.h"
#include "oci_manifest.h"
#include "storage_msg.h"

struct survey {
	int archive; /* borrowed: a file, read from its start */
	int spare;   /* borrowed: an empty file, for a compressed image without its compression */
	uint64_t bytes_max;	  /* of the archive without compression */
	uint32_t reserve_percent; /* of the file system that stay free */
	/* The result. */
	struct storage_survey_result result;
	struct buf config; /* of the image, as it is in the archive; owned */
};

/* Reads the archive and checks every digest in it but those of unpacked layers. The platform is
 * that of this machine. To be released also after an error. */
int survey_read(struct survey *s, struct err *e) MUST_USE;
void survey_release(struct survey *s);
