/* oci_ref.h - references of images: [host[:port]/]path[:tag][@sha256:...]. Pure, for untrusted
 * text. */
#pragma once

#include "oci_digest.h"

#define OCI_REF_HOST_MAX 256 /* all with NUL */
#define OCI_REF_PATH_MAX 256
#define OCI_REF_TAG_MAX 129
#define OCI_REF_TEXT_MAX (OCI_REF_HOST_MAX + OCI_REF_PATH_MAX + OCI_REF_TAG_MAX + OCI_DIGEST_TEXT)

#define OCI_REF_DEFAULT_HOST "docker.io" /* of references without one */

struct oci_ref {
	char host[OCI_REF_HOST_MAX]; /* "name", "name:port", "[v6]:port"; lower case */
	char path[OCI_REF_PATH_MAX]; /* "library/python" */
	char tag[OCI_REF_TAG_MAX]; /* "latest" if there is neither tag nor digest, else maybe "" */
	bool has_digest;
	struct oci_digest digest;
};

/* Reads a reference. A first part that has no '.' or ':' and is not "localhost" is a part of the
 * path, and the host is OCI_REF_DEFAULT_HOST; there a path of one part gets "library/" in front. */
int oci_ref_read(const char *text, struct oci_ref *ret, struct err *e) MUST_USE;

/* The whole reference, with host and all. */
void oci_ref_text(const struct oci_ref *r, char ret[OCI_REF_TEXT_MAX]);
