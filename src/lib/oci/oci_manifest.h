/* oci_manifest.h - manifests and indexes of images, in OCI's and Docker's form: the parts they
 * name, with digests and sizes. The program that gets the bytes compares their digest first
 * (oci_digest_check()). Pure, for untrusted bytes. */
#pragma once

#include "lib/oci/oci_digest.h"

#define OCI_LAYERS_MAX 127
#define OCI_ENTRIES_MAX 512		   /* of an index */
#define OCI_INDEX_DEPTH_MAX 2		   /* an index may name another one */
#define OCI_BLOB_MAX ((uint64_t)100 << 30) /* bytes that a descriptor may claim */
#define OCI_MEDIA_TYPE_MAX 255
#define OCI_PLATFORM_WORD_MAX 32

/* For the header "Accept" of a request for a manifest. */
#define OCI_ACCEPT                                                    \
	"application/vnd.oci.image.index.v1+json, "                   \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json"

enum oci_kind { OCI_KIND_INDEX, OCI_KIND_MANIFEST };

struct oci_descriptor {
	struct oci_digest digest; /* of the blob as it is stored: mostly compressed */
	uint64_t size;
};

struct oci_manifest {
	struct oci_descriptor config;
	uint32_t nlayers;
	struct oci_descriptor layers[OCI_LAYERS_MAX]; /* lowest first */
};

struct oci_platform {
	const char *architecture; /* "amd64" */
	const char *variant;	  /* "v8" or "" */
};

/* The platform of this program. */
const struct oci_platform *oci_platform_own(void);

/* Is it an index or a manifest? The document decides. A media type that contradicts it is an error,
 * as are manifests of Docker's schema 1. media_type: of the answer or descriptor, or "". */
int oci_document_kind(const void *bytes, size_t len, const char *media_type, enum oci_kind *ret,
		      struct err *e) MUST_USE;

/* Read a manifest. Refused are artifacts without layers, layers that must not be distributed, and
 * unknown media types. */
int oci_manifest_read(const void *bytes, size_t len, struct oci_manifest *ret,
		      struct err *e) MUST_USE;

/* Choose the entry of an index for the platform. Entries of platform unknown/unknown are passed
 * over. If name is not NULL, only an entry with that annotation org.opencontainers.image.ref.name.
 * *ret_kind: the entry's kind. ERR_NOT_FOUND: there is none. The message has the platforms of the
 * index. */
int oci_index_choose(const void *bytes, size_t len, const struct oci_platform *want,
		     const char *name, struct oci_descriptor *ret, enum oci_kind *ret_kind,
		     struct err *e) MUST_USE;

/* ---- manifest.json of a docker-archive (docker save): the files with the configuration and the
 * layers of the image */

#define OCI_ARCHIVE_NAME_MAX 256 /* with NUL */

struct oci_archive {
	char config[OCI_ARCHIVE_NAME_MAX]; /* names of members of the archive */
	uint32_t nlayers;
	char layers[OCI_LAYERS_MAX][OCI_ARCHIVE_NAME_MAX];
	char tag[OCI_ARCHIVE_NAME_MAX]; /* the first name of the image, or "" */
};

/* Read manifest.json. An archive of several images is refused. */
int oci_archive_read(const void *bytes, size_t len, struct oci_archive *ret,
		     struct err *e) MUST_USE;

/* ---- names in a layer that delete files of lower layers */

/* The meaning of the last component of a member's path. */
enum oci_whiteout {
	OCI_WHITEOUT_NONE,    /* an ordinary name */
	OCI_WHITEOUT_ONE,     /* ".wh.NAME": NAME of lower layers is deleted */
	OCI_WHITEOUT_OPAQUE,  /* ".wh..wh..opq": all that lower layers have in the directory */
	OCI_WHITEOUT_IGNORED, /* other ".wh..wh.*": records of aufs */
	OCI_WHITEOUT_BAD,     /* ".wh." alone, or of "." or "..": refused */
};

/* *ret_name is set for OCI_WHITEOUT_ONE: a part of name. */
enum oci_whiteout oci_whiteout_of(const char *name, const char **ret_name);
