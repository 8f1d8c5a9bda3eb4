/* oci_archive.h - manifest.json of a docker-archive (docker save): which of its files are the
 * configuration and the layers of the image. Pure, for untrusted bytes. */
#pragma once

#include "oci_manifest.h"

#define OCI_ARCHIVE_NAME_MAX 256 /* with NUL */

struct oci_archive {
	char config[OCI_ARCHIVE_NAME_MAX]; /* names of members of the archive */
	uint32_t nlayers;
	char layers[OCI_LAYERS_MAX][OCI_ARCHIVE_NAME_MAX];
	char tag[OCI_ARCHIVE_NAME_MAX]; /* the first name of the image, or "" */
};

/* Reads manifest.json. An archive of several images is refused. */
int oci_archive_read(const void *bytes, size_t len, struct oci_archive *ret,
		     struct err *e) MUST_USE;
