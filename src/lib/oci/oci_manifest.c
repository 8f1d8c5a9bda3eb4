#include "lib/oci/oci_manifest.h"

#include <stdio.h>
#include <string.h>

#include "lib/oci/oci_json.h"

#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

static const char *const index_types[] = { OCI "index.v1+json",
					   DOCKER "distribution.manifest.list.v2+json" };
static const char *const manifest_types[] = { OCI "manifest.v1+json",
					      DOCKER "distribution.manifest.v2+json" };
static const char *const config_types[] = { OCI "config.v1+json",
					    DOCKER "container.image.v1+json" };
static const char *const layer_types[] = {
	OCI "layer.v1.tar",
	OCI "layer.v1.tar+gzip",
	OCI "layer.v1.tar+zstd",
	DOCKER "image.rootfs.diff.tar",
	DOCKER "image.rootfs.diff.tar.gzip",
	DOCKER "image.rootfs.diff.tar.zstd",
};

/* Media types are compared exactly. Parameters behind a ';' make another type. */
static bool manifest_is_one_of(const char *type, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(type, list[i]) == 0)
			return true;
	return false;
}

#define IS(type, list) manifest_is_one_of(type, list, COUNT(list))

/* Read digest and size. *ret_type points into the JSON. */
static int oci_descriptor_read(const json_t *object, struct oci_descriptor *ret,
			       const char **ret_type, struct err *e)
{
	const json_t *size = json_object_get(object, "size");
	const char *digest;

	if (!json_is_object(object))
		return err_set(e, ERR_INVALID, "not an object");
	digest = oci_json_text(object, "digest", OCI_DIGEST_TEXT, e);
	*ret_type = oci_json_text(object, "mediaType", OCI_MEDIA_TYPE_MAX, e);
	if (digest == NULL || *ret_type == NULL ||
	    oci_digest_read(digest, strlen(digest), &ret->digest, e) < 0)
		return -1;
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (uint64_t)json_integer_value(size) > OCI_BLOB_MAX)
		return err_set(e, ERR_INVALID, "size: missing or too large");
	ret->size = (uint64_t)json_integer_value(size);
	return 0;
}

/* ---- kinds of documents */

static int manifest_check_version(const json_t *root, struct err *e)
{
	const json_t *version = json_object_get(root, "schemaVersion");

	if (json_is_integer(version) && json_integer_value(version) == 1)
		return err_set(e, ERR_UNSUPPORTED,
			       "manifest: schema 1 is not supported; push the image again with a "
			       "current program");
	if (!json_is_integer(version) || json_integer_value(version) != 2)
		return err_set(e, ERR_INVALID, "manifest: schemaVersion must be 2");
	return 0;
}

/* The members decide, and all media types must agree with them. A document that could be read as
 * both would be two images under one digest. */
static int manifest_find_kind(const json_t *root, const char *media_type, enum oci_kind *ret,
			      struct err *e)
{
	const char *own = oci_json_text(root, "mediaType", OCI_MEDIA_TYPE_MAX, e);
	bool has_manifests = json_is_array(json_object_get(root, "manifests"));
	bool has_layers = json_is_array(json_object_get(root, "layers"));
	bool is_index = own != NULL && IS(own, index_types);
	bool is_manifest = own != NULL && IS(own, manifest_types);

	if (own == NULL || manifest_check_version(root, e) < 0)
		return -1;
	if (has_manifests == has_layers)
		return err_set(e, ERR_INVALID,
			       "manifest: neither an index nor the manifest of an image");
	if ((is_index && !has_manifests) || (is_manifest && !has_layers) ||
	    (own[0] != '\0' && !is_index && !is_manifest) ||
	    (IS(media_type, index_types) && !has_manifests) ||
	    (IS(media_type, manifest_types) && !has_layers))
		return err_set(e, ERR_INVALID, "manifest: its media type contradicts its content");
	*ret = has_manifests ? OCI_KIND_INDEX : OCI_KIND_MANIFEST;
	return 0;
}

int oci_document_kind(const void *bytes, size_t len, const char *media_type, enum oci_kind *ret,
		      struct err *e)
{
	OWN_OCI_JSON *root = oci_json_parse(bytes, len, false, "manifest", e);

	return root == NULL ? -1 : manifest_find_kind(root, media_type, ret, e);
}

/* ---- a manifest */

static int manifest_read_layer(const json_t *object, struct oci_descriptor *ret, struct err *e)
{
	const char *type;

	if (oci_descriptor_read(object, ret, &type, e) < 0)
		return -1;
	if (strstr(type, "nondistributable") != NULL || strstr(type, "foreign") != NULL)
		return err_set(e, ERR_UNSUPPORTED, "%.80s must not be distributed", type);
	if (!IS(type, layer_types))
		return err_set(e, ERR_UNSUPPORTED, "media type '%.80s' is not supported", type);
	return 0;
}

static int manifest_read_layers(const json_t *root, struct oci_manifest *ret, struct err *e)
{
	json_t *layers;

	if (oci_json_array(root, "layers", OCI_LAYERS_MAX, &layers, e) < 0)
		return err_wrap(e, "manifest");
	if (json_array_size(layers) == 0)
		return err_set(e, ERR_UNSUPPORTED, "manifest: it has no layers");
	for (size_t i = 0; i < json_array_size(layers); i++)
		if (manifest_read_layer(json_array_get(layers, i), &ret->layers[i], e) < 0)
			return err_wrap(e, "manifest: layer %zu", i + 1);
	ret->nlayers = (uint32_t)json_array_size(layers);
	return 0;
}

int oci_manifest_read(const void *bytes, size_t len, struct oci_manifest *ret, struct err *e)
{
	OWN_OCI_JSON *root = oci_json_parse(bytes, len, false, "manifest", e);
	enum oci_kind kind;
	const char *type;

	memset(ret, 0, sizeof(*ret));
	if (root == NULL || manifest_find_kind(root, "", &kind, e) < 0)
		return -1;
	if (kind != OCI_KIND_MANIFEST)
		return err_set(e, ERR_INVALID, "manifest: it is an index");
	if (oci_descriptor_read(json_object_get(root, "config"), &ret->config, &type, e) < 0)
		return err_wrap(e, "manifest: config");
	if (!IS(type, config_types))
		return err_set(e, ERR_UNSUPPORTED,
			       "manifest: config of type '%.80s': not an image that can be run",
			       type);
	if (ret->config.size > OCI_JSON_MAX)
		return err_set(e, ERR_INVALID, "manifest: config larger than %u bytes",
			       OCI_JSON_MAX);
	return manifest_read_layers(root, ret, e);
}

/* ---- an index: the manifest in it that fits this machine */

#define REF_NAME "org.opencontainers.image.ref.name"
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
static int index_rate(const json_t *platform, const struct oci_platform *want,
		      char found[FOUND_MAX], struct err *e)
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

static bool index_has_name(const json_t *entry, const char *name)
{
	const json_t *notes = json_object_get(entry, "annotations");
	const char *found = json_string_value(json_object_get(notes, REF_NAME));

	return name == NULL || (found != NULL && strcmp(found, name) == 0);
}

/* The best entry so far, while the walk goes through the index. */
struct choice {
	const struct oci_platform *want;
	int rating;
	struct oci_descriptor best;
	enum oci_kind kind;
	char found[FOUND_MAX];
};

/* The first of several equally good entries stays. */
static int index_consider(const json_t *entry, struct choice *c, struct err *e)
{
	struct oci_descriptor d;
	const char *type;
	json_t *platform;
	int rating;

	if (oci_descriptor_read(entry, &d, &type, e) < 0 ||
	    oci_json_object(entry, "platform", &platform, e) < 0)
		return -1;
	rating = index_rate(platform, c->want, c->found, e);
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

		if (index_has_name(entry, name) && index_consider(entry, &c, e) < 0)
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

/* ---- manifest.json of a docker-archive */

/* ret stays as it was on failure. */
static int archive_take_name(const json_t *value, char ret[OCI_ARCHIVE_NAME_MAX], struct err *e)
{
	const char *text = json_string_value(value);

	if (text == NULL || text[0] == '\0' || strlen(text) >= OCI_ARCHIVE_NAME_MAX)
		return err_set(e, ERR_INVALID, "not the name of a file");
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

int oci_archive_read(const void *bytes, size_t len, struct oci_archive *ret, struct err *e)
{
	OWN_OCI_JSON *root = oci_json_parse(bytes, len, true, "manifest.json", e);
	const json_t *image, *tag;
	json_t *layers;

	memset(ret, 0, sizeof(*ret));
	if (root == NULL)
		return -1;
	if (json_array_size(root) != 1)
		return err_set(e, ERR_UNSUPPORTED,
			       "manifest.json: the archive has %zu images; it must have one",
			       json_array_size(root));
	image = json_array_get(root, 0);
	if (!json_is_object(image) ||
	    archive_take_name(json_object_get(image, "Config"), ret->config, e) < 0)
		return err_set(e, ERR_INVALID, "manifest.json: Config: not the name of a file");
	if (oci_json_array(image, "Layers", OCI_LAYERS_MAX, &layers, e) < 0)
		return err_wrap(e, "manifest.json");
	for (size_t i = 0; i < json_array_size(layers); i++)
		if (archive_take_name(json_array_get(layers, i), ret->layers[i], e) < 0)
			return err_wrap(e, "manifest.json: layer %zu", i + 1);
	ret->nlayers = (uint32_t)json_array_size(layers);
	if (ret->nlayers == 0)
		return err_set(e, ERR_UNSUPPORTED, "manifest.json: the image has no layers");
	tag = json_array_get(json_object_get(image, "RepoTags"), 0);
	if (tag != NULL && archive_take_name(tag, ret->tag, e) < 0)
		ret->tag[0] = '\0';
	return 0;
}

/* ---- names in a layer */

#define PREFIX ".wh."
#define PREFIX_LEN (sizeof(PREFIX) - 1)

/* The order matters: ".wh..wh..opq" also begins as a record of aufs does. */
enum oci_whiteout oci_whiteout_of(const char *name, const char **ret_name)
{
	const char *rest = name + PREFIX_LEN;

	if (strncmp(name, PREFIX, PREFIX_LEN) != 0)
		return OCI_WHITEOUT_NONE;
	if (strcmp(rest, PREFIX ".opq") == 0)
		return OCI_WHITEOUT_OPAQUE;
	if (strncmp(rest, PREFIX, PREFIX_LEN) == 0)
		return OCI_WHITEOUT_IGNORED;
	if (rest[0] == '\0' || strcmp(rest, ".") == 0 || strcmp(rest, "..") == 0 ||
	    strchr(rest, '/') != NULL)
		return OCI_WHITEOUT_BAD;
	*ret_name = rest;
	return OCI_WHITEOUT_ONE;
}
