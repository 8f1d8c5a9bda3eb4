/* package_oci.c - requests of the OCI distribution API (docker, podman, skopeo). */
#include "lib/packages/package_chars.h"
#include "lib/packages/package_row.h"

static const struct package_row rows[] = {
	{ "GET", "/v2/", PACKAGE_INDEX, FORM_OCI_CHECK, NULL },
	{ "GET", "/v2/_catalog", PACKAGE_SEARCH, FORM_NONE, "*" },
	{ "GET", "/v2/{names}/tags/list", PACKAGE_META, FORM_OCI_TAGS, "*" },
	{ "GET", "/v2/{names}/manifests/{version}", PACKAGE_META, FORM_OCI_MANIFEST, NULL },
	{ "GET", "/v2/{names}/referrers/{version}", PACKAGE_META, FORM_NONE, "*" },
	{ "GET", "/v2/{names}/blobs/{version}", PACKAGE_FILE, FORM_OCI_BLOB, NULL },
	{ "PUT", "/v2/{names}/manifests/{version}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/v2/{names}/manifests/{version}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "DELETE", "/v2/{names}/blobs/{version}", PACKAGE_PUBLISH, FORM_NONE, NULL },
	{ "POST", "/v2/{names}/blobs/uploads/", PACKAGE_PUBLISH, FORM_NONE, "*" },
	{ "GET", "/v2/{names}/blobs/uploads/{one}", PACKAGE_PUBLISH, FORM_NONE, "*" },
	{ "PATCH", "/v2/{names}/blobs/uploads/{one}", PACKAGE_PUBLISH, FORM_NONE, "*" },
	{ "PUT", "/v2/{names}/blobs/uploads/{one}", PACKAGE_PUBLISH, FORM_NONE, "*" },
	{ "DELETE", "/v2/{names}/blobs/uploads/{one}", PACKAGE_PUBLISH, FORM_NONE, "*" },
	{ "GET", "/token", PACKAGE_AUTH, FORM_NONE, "*" },
	{ "POST", "/token", PACKAGE_AUTH, FORM_NONE, "*" },
};

/* Other algorithms are not registered, or too weak. */
static bool is_digest(const char *text)
{
	if (strncmp(text, "sha256:", 7) == 0)
		return package_is_hex(text + 7, strlen(text + 7), 64);
	return strncmp(text, "sha512:", 7) == 0 && package_is_hex(text + 7, strlen(text + 7), 128);
}

static bool read_row(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret)
{
	if (!package_take_name(m->name, ret) || !package_take_version(m->version, ret))
		return false;
	if (row->form == FORM_OCI_BLOB || strchr(ret->version, ':') != NULL)
		return is_digest(ret->version);
	return true;
}

const struct package_table package_table_oci = { rows, sizeof(rows) / sizeof(rows[0]), read_row };
