/* oci_manifest.h - manifests and indexes of images, in OCI's and Docker's form: what they name,
 * with digests and sizes. The program that gets the bytes compares their digest first
 * (oci_digest_check()). Pure, for untrusted bytes. */
#pragma once

#include "oci_digest.h"

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

/* Is it an index or a manifest? The document decides; a media type that contradicts it is an error,
 * as are manifests of Docker's schema 1. media_type: of the answer or descriptor, or "". */
int oci_document_kind(const void *bytes, size_t len, const char *media_type, enum oci_kind *ret,
		      struct err *e) MUST_USE;

/* Reads a manifest. Refused are artifacts without layers, layers that must not be distributed, and
 * media types that are not known. */
int oci_manifest_read(const void *bytes, size_t len, struct oci_manifest *ret,
		      struct err *e) MUST_USE;

/* Chooses the entry of an index for the platform; entries of platform unknown/unknown are passed
 * over. If name is not NULL, only an entry with that annotation org.opencontainers.image.ref.name.
 * *ret_kind: what the entry is. ERR_NOT_FOUND: there is none; the message has the platforms that
 * are there. */
int oci_index_choose(const void *bytes, size_t len, const struct oci_platform *want,
		     const char *name, struct oci_descriptor *ret, enum oci_kind *ret_kind,
		     struct err *e) MUST_USE;
