#include "oci_manifest.h"

#include <string.h>

#include "oci_descriptor.h"

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

static bool is_one_of(const char *type, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(type, list[i]) == 0)
			return true;
	return false;
}

#define IS(type, list) is_one_of(type, list, COUNT(list))

int oci_descriptor_read(const json_t *object, struct oci_descriptor *ret, const char **ret_type,
			struct err *e)
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

/* ---- what a document is */

static int check_version(const json_t *root, struct err *e)
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

static int find_kind(const json_t *root, const char *media_type, enum oci_kind *ret, struct err *e)
{
	const char *own = oci_json_text(root, "mediaType", OCI_MEDIA_TYPE_MAX, e);
	bool has_manifests = json_is_array(json_object_get(root, "manifests"));
	bool has_layers = json_is_array(json_object_get(root, "layers"));
	bool is_index = own != NULL && IS(own, index_types);
	bool is_manifest = own != NULL && IS(own, manifest_types);

	if (own == NULL || check_version(root, e) < 0)
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

	return root == NULL ? -1 : find_kind(root, media_type, ret, e);
}

/* ---- a manifest */

static int read_layer(const json_t *object, struct oci_descriptor *ret, struct err *e)
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

static int read_layers(const json_t *root, struct oci_manifest *ret, struct err *e)
{
	json_t *layers;

	if (oci_json_array(root, "layers", OCI_LAYERS_MAX, &layers, e) < 0)
		return err_wrap(e, "manifest");
	if (json_array_size(layers) == 0)
		return err_set(e, ERR_UNSUPPORTED, "manifest: it has no layers");
	for (size_t i = 0; i < json_array_size(layers); i++)
		if (read_layer(json_array_get(layers, i), &ret->layers[i], e) < 0)
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
	if (root == NULL || find_kind(root, "", &kind, e) < 0)
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
	return read_layers(root, ret, e);
}
