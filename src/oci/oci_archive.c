#include "oci_archive.h"

#include <string.h>

#include "oci_json.h"

static int take_name(const json_t *value, char ret[OCI_ARCHIVE_NAME_MAX], struct err *e)
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
	    take_name(json_object_get(image, "Config"), ret->config, e) < 0)
		return err_set(e, ERR_INVALID, "manifest.json: Config: not the name of a file");
	if (oci_json_array(image, "Layers", OCI_LAYERS_MAX, &layers, e) < 0)
		return err_wrap(e, "manifest.json");
	for (size_t i = 0; i < json_array_size(layers); i++)
		if (take_name(json_array_get(layers, i), ret->layers[i], e) < 0)
			return err_wrap(e, "manifest.json: layer %zu", i + 1);
	ret->nlayers = (uint32_t)json_array_size(layers);
	if (ret->nlayers == 0)
		return err_set(e, ERR_UNSUPPORTED, "manifest.json: the image has no layers");
	tag = json_array_get(json_object_get(image, "RepoTags"), 0);
	if (tag != NULL && take_name(tag, ret->tag, e) < 0)
		ret->tag[0] = '\0';
	return 0;
}
