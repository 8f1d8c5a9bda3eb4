/* Any bytes as a reference, a name in a layer, a manifest, an index, a configuration, a
 * manifest.json: what is taken is within its bounds and, where it can be written, read back as the
 * same. */
#include "fuzz.h"

#include "lib/oci/oci_config.h"
#include "lib/oci/oci_manifest.h"
#include "lib/oci/oci_ref.h"

unsigned long fuzz_accepted;

static void check_ref(const char *text)
{
	char written[OCI_REF_TEXT_MAX];
	struct oci_ref r, again;
	struct err e = { 0 };

	if (oci_ref_read(text, &r, &e) < 0) {
		assert(e.code == ERR_INVALID);
		return;
	}
	fuzz_accepted++;
	assert(strstr(r.path, "..") == NULL && r.path[0] != '/' && r.host[0] != '\0');
	oci_ref_text(&r, written);
	assert(oci_ref_read(written, &again, &e) == 0 && memcmp(&r, &again, sizeof(r)) == 0);
}

static void check_whiteout(const char *text)
{
	const char *name = NULL;

	if (oci_whiteout_of(text, &name) == OCI_WHITEOUT_ONE)
		assert(name == text + 4 && name[0] != '\0' && strchr(name, '/') == NULL);
}

static void check_config(const void *bytes, size_t n)
{
	struct oci_config c;
	struct err e = { 0 };

	if (oci_config_read(bytes, n, oci_platform_own(), &c, &e) == 0) {
		fuzz_accepted++;
		assert(c.nlayers > 0 && c.nlayers <= OCI_LAYERS_MAX);
		assert(c.workdir[0] == '\0' || c.workdir[0] == '/');
		assert(c.env.len == 0 || c.env.data[c.env.len - 1] == 0);
	} else {
		assert(e.msg[0] != '\0');
	}
	oci_config_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *exact = fuzz_copy(data, size);
	char *text = fuzz_text(data, size);
	static struct oci_manifest m;
	static struct oci_archive a;
	struct oci_descriptor d;
	enum oci_kind kind;
	struct err e = { 0 };

	check_ref(text);
	check_whiteout(text);
	check_config(exact, size);
	if (oci_manifest_read(exact, size, &m, &e) == 0) {
		fuzz_accepted++;
		assert(m.nlayers > 0 && m.nlayers <= OCI_LAYERS_MAX);
	}
	if (oci_document_kind(exact, size, "", &kind, &e) == 0)
		fuzz_accepted++;
	if (oci_index_choose(exact, size, oci_platform_own(), NULL, &d, &kind, &e) == 0)
		assert(d.size <= OCI_BLOB_MAX);
	if (oci_archive_read(exact, size, &a, &e) == 0)
		assert(a.nlayers > 0 && a.config[0] != '\0');
	free(text);
	free(exact);
	return 0;
}
