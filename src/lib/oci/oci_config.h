/* oci_config.h - the configuration of an image: what its layers are when they are unpacked, and how
 * its programs are started. Pure, for untrusted bytes. */
#pragma once

#include "lib/base/buf.h"
#include "lib/oci/oci_manifest.h"

#define OCI_ENV_BYTES_MAX (256U << 10)
#define OCI_ENV_MAX 1024
#define OCI_COMMAND_BYTES_MAX (64U << 10)
#define OCI_COMMAND_MAX 1024 /* arguments */
#define OCI_USER_MAX 128     /* with NUL */
#define OCI_WORKDIR_MAX 4096 /* with NUL */

struct oci_config {
	uint32_t nlayers;
	struct oci_digest diff_ids[OCI_LAYERS_MAX]; /* of each layer's uncompressed tar */
	struct buf env;				    /* NAME=value, each with its NUL */
	char user[OCI_USER_MAX];       /* "name", "uid", "name:group", "uid:gid". "": root */
	char workdir[OCI_WORKDIR_MAX]; /* absolute, or "" */
	struct buf command;	       /* Entrypoint and Cmd: each argument with its NUL */
};

/* Read a configuration. The platform must be linux and want's architecture. Variables without a
 * name are left out. Of two with the same name the last counts. To be released also after an error.
 */
int oci_config_read(const void *bytes, size_t len, const struct oci_platform *want,
		    struct oci_config *ret, struct err *e) MUST_USE;
void oci_config_release(struct oci_config *c);
