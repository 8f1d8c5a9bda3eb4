/* oci_index.c - an index: which of its manifests fits this machine. */
#include <stdio.h>
#include <string.h>

#include "oci_descriptor.h"

#define REF_NAME "org.opencontainers.image.ref.name"
#define REF_NAME_MAX 255
#define FOUND_MAX 120 /* bytes of the list of platforms in a message */

#if defined(__x86_64__)
#define OWN_ARCHITECTURE "amd64"
#define OWN_VARIANT ""
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE "arm64"
#define OWN_VARIANT "v8"
#elif defined(__riscv)
#define OWN_ARCHITECTURE "riscv64"
#define OWN_VARIANT ""
#else
#error "the name of this architecture in images is not known"
#endif

const struct oci_platform *oci_platform_own(void)
{
	static const struct oci_platform own = { OWN_ARCHITECTURE, OWN_VARIANT };

	return &own;
}

/* How well an entry fits: 0 not at all, 1 if it does not say, 2 without a variant, 3 exactly. */
static int rate(const json_t *platform, const struct oci_platform *want, char found[FOUND_MAX],
		struct err *e)
{
	const char *os, *arch, *variant;
	size_t n = strlen(found);

	if (platform == NULL)
		return 1;
	os = oci_json_text(platform, "os", OCI_PLATFORM_WORD_MAX, e);
	arch = oci_json_text(platform, "architecture", OCI_PLATFORM_WORD_MAX, e);
	variant = oci_json_text(platform, "variant", OCI_PLATFORM_WORD_MAX, e);
	if (os == NULL || arch == NULL || variant == NULL)
		return -1;
	if (strcmp(os, "unknown") == 0)
		return 0; /* an attestation */
	(void)snprintf(found + n, FOUND_MAX - n, "%s%s/%s%s%s", n == 0 ? "" : ", ", os, arch,
		       variant[0] == '\0' ? "" : "/", variant);
	if (strcmp(os, "linux") != 0 || strcmp(arch, want->architecture) != 0)
		return 0;
	if (strcmp(variant, want->variant) == 0)
		return 3;
	return variant[0] == '\0' || want->variant[0] == '\0' ? 2 : 0;
}

static bool has_name(const json_t *entry, const char *name)
{
	const json_t *notes = json_object_get(entry, "annotations");
	const char *found = json_string_value(json_object_get(notes, REF_NAME));

	return name == NULL || (found != NULL && strcmp(found, name) == 0);
}

struct choice {
	const struct oci_platform *want;
	int rating;
	struct oci_descriptor best;
	enum oci_kind kind;
	char found[FOUND_MAX];
};

static int consider(const json_t *entry, struct choice *c, struct err *e)
{
	struct oci_descriptor d;
	const char *type;
	json_t *platform;
	int rating;

	if (oci_descriptor_read(entry, &d, &type, e) < 0 ||
	    oci_json_object(entry, "platform", &platform, e) < 0)
		return -1;
	rating = rate(platform, c->want, c->found, e);
	if (rating < 0)
		return -1;
	if (strstr(type, "manifest.v1") == NULL && strstr(type, "manifest.v2") == NULL &&
	    strstr(type, "index.v1") == NULL && strstr(type, "manifest.list.v2") == NULL)
		return 0; /* not an image */
	if (rating > c->rating) {
		c->rating = rating;
		c->best = d;
		c->kind = strstr(type, "index.v1") != NULL || strstr(type, "list.v2") != NULL
				  ? OCI_KIND_INDEX
				  : OCI_KIND_MANIFEST;
	}
	return 0;
}

int oci_index_choose(const void *bytes, size_t len, const struct oci_platform *want,
		     const char *name, struct oci_descriptor *ret, enum oci_kind *ret_kind,
		     struct err *e)
{
	OWN_OCI_JSON *root = oci_json_parse(bytes, len, false, "index", e);
	struct choice c = { .want = want };
	json_t *entries;

	if (root == NULL || oci_json_array(root, "manifests", OCI_ENTRIES_MAX, &entries, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(entries); i++) {
		const json_t *entry = json_array_get(entries, i);

		if (has_name(entry, name) && consider(entry, &c, e) < 0)
			return err_wrap(e, "index: entry %zu", i + 1);
	}
	if (c.rating == 0)
		return err_set(e, ERR_NOT_FOUND, "index: no image for linux/%s%s%s%s",
			       want->architecture, name == NULL ? "" : " of that name",
			       c.found[0] == '\0' ? "" : "; there are: ", c.found);
	*ret = c.best;
	*ret_kind = c.kind;
	return 0;
}
