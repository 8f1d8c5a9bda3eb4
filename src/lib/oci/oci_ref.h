/* oci_ref.h - references of images: [host[:port]/]path[:tag][@sha256:...]. Pure, for untrusted
 * text. */
#pragma once

#include <stdbool.h>

#include "lib/oci/oci_digest.h"

#define OCI_REF_HOST_MAX 256 /* all with NUL */
#define OCI_REF_PATH_MAX 256
#define OCI_REF_TAG_MAX 129
#define OCI_REF_TEXT_MAX (OCI_REF_HOST_MAX + OCI_REF_PATH_MAX + OCI_REF_TAG_MAX + OCI_DIGEST_TEXT)

#define OCI_REF_DEFAULT_HOST "docker.io" /* of references without one */

struct oci_ref {
	char host[OCI_REF_HOST_MAX]; /* "name", "name:port", "[v6]:port". Lower case */
	char path[OCI_REF_PATH_MAX]; /* "library/python" */
	char tag[OCI_REF_TAG_MAX]; /* "latest" if there is neither tag nor digest, else maybe "" */
	bool has_digest;
	struct oci_digest digest;
};

/* Read a reference. A first part without '.' or ':', other than "localhost", is a part of the
 * path, and the host is OCI_REF_DEFAULT_HOST. There a path of one part gets "library/" in front. */
int oci_ref_read(const char *text, struct oci_ref *ret, struct err *e) MUST_USE;

/* The whole reference, with host and all. */
void oci_ref_text(const struct oci_ref *r, char ret[OCI_REF_TEXT_MAX]);

/* ---- registries of AWS by their names: their region, and the host of the API that gives out their
 * passwords. cordond refuses credentials of AWS for other registries. cordon-pull asks that API. */

#define OCI_ECR_REGION_MAX 32 /* both with NUL */
#define OCI_ECR_API_MAX 80

struct oci_ecr {
	char region[OCI_ECR_REGION_MAX];
	char api[OCI_ECR_API_MAX];
};

/* ACCOUNT.dkr.ecr.REGION.amazonaws.com, the same with ecr-fips, and with .cn behind it. False: not
 * such a registry. */
bool oci_ecr_read(const char *host, struct oci_ecr *ret);
