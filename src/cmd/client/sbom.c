/* sbom.c - see sbom.h. Both documents name each package by its purl and have the digest of its file
 * as Cordon computed it. Facts without a member in either (registry, age, whether code ran at its
 * installation) are a property of CycloneDX and a comment of SPDX. */
#include "cmd/client/sbom.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/client/member.h"
#include "lib/base/hex.h"
#include "lib/base/own.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"
#include "lib/packages/purl.h"

#define CLAIM_MAX 512 /* a name and a version */
#define UUID_TEXT 37
#define TIME_TEXT 32

/* Digests are written as ALGORITHM:HEX by the server. Both documents have names of their own for
 * the algorithms. */
static const struct {
	const char *ours, *cyclonedx, *spdx;
	size_t digits;
} algorithms[] = {
	{ "sha256", "SHA-256", "SHA256", 64 },
	{ "sha384", "SHA-384", "SHA384", 96 },
	{ "sha512", "SHA-512", "SHA512", 128 },
	{ "sha1", "SHA-1", "SHA1", 40 },
};

bool sbom_form_read(const char *text, enum sbom_form *ret)
{
	*ret = strcmp(text, "spdx") == 0 ? SBOM_SPDX : SBOM_CYCLONEDX;
	return *ret == SBOM_SPDX || *text == '\0' || strcmp(text, "cyclonedx") == 0;
}

/* Rows without a download are refusals and names that were only looked up. */
static bool is_downloaded(const json_t *row)
{
	return member_number(row, "downloads", 0) > 0;
}

/* "ALGORITHM:HEX": the place of its algorithm, or -1. */
static int digest_of(const char *text, const char **ret_hex)
{
	size_t n = strcspn(text, ":");

	for (size_t i = 0; i < COUNT(algorithms); i++)
		if (strlen(algorithms[i].ours) == n && strncmp(text, algorithms[i].ours, n) == 0 &&
		    strspn(text + n + 1, "0123456789abcdef") == algorithms[i].digits &&
		    text[n + 1 + algorithms[i].digits] == '\0') {
			*ret_hex = text + n + 1;
			return (int)i;
		}
	return -1;
}

/* The downloads of the package: names and digests of files. Owned by the caller. A row without
 * the member `files` has one file, whose digest counts only if the result is "downloaded". */
static json_t *files_of(const json_t *row)
{
	json_t *files = json_object_get(row, "files");
	const char *checksum = member_text(row, "checksum", "");

	if (json_object_size(files) > 0)
		return json_incref(files);
	if (strcmp(member_text(row, "result", ""), "downloaded") != 0)
		checksum = "";
	return json_pack("{s:s}", member_text(row, "file", ""), checksum);
}

/* An ecosystem that this program does not know is treated as git. */
static void purl_of(const json_t *row, char ret[PURL_MAX])
{
	const char *word = member_text(row, "ecosystem", "");
	enum ecosystem eco = ECO_GIT;

	(void)ecosystem_read(word, strlen(word), &eco);
	purl_write(eco, member_text(row, "name", ""), member_text(row, "version", ""), ret);
}

/* A file of any host: its name is only a claim. Such a file gets no purl, since that would name
 * a package of a registry. */
static bool is_direct(const json_t *row)
{
	return member_text(row, "registry", "")[0] == '\0';
}

/* A package without a name in its URL, or from no registry, is named after its file.
 */
static const char *name_of(const json_t *row)
{
	const char *name = member_text(row, "name", ""), *file = member_text(row, "file", "");

	return name[0] == '\0' || (is_direct(row) && file[0] != '\0') ? file : name;
}

/* "requests 2.0" */
static void write_claim(const json_t *row, char *ret, size_t cap)
{
	const char *version = member_text(row, "version", "");

	(void)snprintf(ret, cap, "%s%s%s", member_text(row, "name", ""),
		       version[0] != '\0' ? " " : "", version);
}

/* A session has one identifier, each time. */
static void write_uuid(const char *session, char ret[UUID_TEXT])
{
	uint8_t hash[SHA256_SIZE];
	char hex[33];

	sha256_of(session, strlen(session), hash);
	hash[6] = (uint8_t)((hash[6] & 0x0f) | 0x80);
	hash[8] = (uint8_t)((hash[8] & 0x3f) | 0x80);
	hex_encode(hash, 16, hex);
	(void)snprintf(ret, UUID_TEXT, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
		       hex + 16, hex + 20);
}

static void write_now(char ret[TIME_TEXT])
{
	time_t now = time(NULL);
	struct tm tm;

	(void)strftime(ret, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

/* ---- CycloneDX
 *
 * A component has the members that the format knows: name, version, purl and digest. The rest are
 * properties with the prefix "cordon:". */

static const char *const details[] = { "ecosystem",   "registry", "file",	  "size",
				       "released_at", "first_at", "install_code", "cache",
				       "expected",    "verified", "execution_id" };

/* Empty members are left out. The caller takes the list over. */
static json_t *properties_of(const json_t *row)
{
	json_t *list = json_array();
	char claim[CLAIM_MAX];

	write_claim(row, claim, sizeof(claim));
	if (is_direct(row))
		(void)json_array_append_new(
			list, json_pack("{s:s,s:s}", "name", "cordon:direct", "value", "true"));
	if (is_direct(row) && claim[0] != '\0')
		(void)json_array_append_new(
			list, json_pack("{s:s,s:s}", "name", "cordon:claims", "value", claim));
	for (size_t i = 0; i < COUNT(details); i++) {
		const json_t *value = json_object_get(row, details[i]);
		char name[48], text[32] = "";

		(void)snprintf(name, sizeof(name), "cordon:%s", details[i]);
		if (json_is_integer(value))
			(void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
				       json_integer_value(value));
		else if (json_is_boolean(value))
			str_copy(text, json_is_true(value) ? "true" : "false");
		else if (json_string_length(value) == 0)
			continue;
		(void)json_array_append_new(
			list, json_pack("{s:s,s:s}", "name", name, "value",
					json_is_string(value) ? json_string_value(value) : text));
	}
	return list;
}

/* A digest that cannot be read is left out, and the document stays valid. */
static void add_hash(json_t *component, const char *checksum)
{
	const char *hex;
	int at = digest_of(checksum, &hex);

	if (component != NULL && at >= 0)
		(void)json_object_set_new(
			component, "hashes",
			json_pack("[{s:s,s:s}]", "alg", algorithms[at].cyclonedx, "content", hex));
}

/* The only file of a package has its digest there. Several are components of their own. */
static void add_files(json_t *component, const json_t *row, const char *ref)
{
	OWN_JSON *files = files_of(row);
	json_t *list, *value;
	const char *name;
	char one[PURL_MAX + 64];
	unsigned n = 0;

	if (json_object_size(files) < 2) {
		json_object_foreach(files, name, value)
		{
			add_hash(component, member_text(files, name, ""));
		}
		return;
	}
	list = json_array();
	json_object_foreach(files, name, value)
	{
		json_t *file;

		(void)snprintf(one, sizeof(one), "%s.%u", ref, ++n);
		file = json_pack("{s:s,s:s,s:s}", "type", "file", "bom-ref", one, "name", name);
		add_hash(file, member_text(files, name, ""));
		(void)json_array_append_new(list, file);
	}
	(void)json_object_set_new(component, "components", list);
}

/* The reference is unique in the document, because the number of the row is in it. */
static json_t *component_of(const json_t *row)
{
	char purl[PURL_MAX], ref[PURL_MAX + 24];
	json_t *c;

	purl_of(row, purl);
	(void)snprintf(ref, sizeof(ref), "%s#%llu", is_direct(row) ? "direct" : purl,
		       (unsigned long long)member_number(row, "seq", 0));
	c = json_pack("{s:s,s:s,s:s,s:o}", "type", is_direct(row) ? "file" : "library", "bom-ref",
		      ref, "name", name_of(row), "properties", properties_of(row));
	if (c != NULL && !is_direct(row)) {
		(void)json_object_set_new(c, "version",
					  json_string(member_text(row, "version", "")));
		(void)json_object_set_new(c, "purl", json_string(purl));
	}
	if (c != NULL)
		add_files(c, row, ref);
	return c;
}

/* One serial number for a session, so that a later document replaces an earlier one. The time is
 * that of the call. */
static json_t *make_cyclonedx(const char *session, const json_t *packages)
{
	json_t *components = json_array();
	char uuid[UUID_TEXT], now[TIME_TEXT], serial[UUID_TEXT + 16];

	write_uuid(session, uuid);
	write_now(now);
	(void)snprintf(serial, sizeof(serial), "urn:uuid:%s", uuid);
	for (size_t i = 0; i < json_array_size(packages); i++)
		if (is_downloaded(json_array_get(packages, i)))
			(void)json_array_append_new(components,
						    component_of(json_array_get(packages, i)));
	return json_pack("{s:s,s:s,s:s,s:i,s:{s:s,s:{s:[{s:s,s:s,s:s}]},s:{s:s,s:s,s:s}},s:o}",
			 "bomFormat", "CycloneDX", "specVersion", "1.5", "serialNumber", serial,
			 "version", 1, "metadata", "timestamp", now, "tools", "components", "type",
			 "application", "name", "cordon", "version", CORDON_VERSION, "component",
			 "type", "container", "bom-ref", session, "name", session, "components",
			 components);
}

/* ---- SPDX
 *
 * SPDX wants a statement where nothing is known: NOASSERTION. Cordon knows no licences. */

static json_t *spdx_package(const json_t *row, const char *id, const char *file,
			    const char *checksum)
{
	char purl[PURL_MAX], claim[CLAIM_MAX], comment[1024];
	const char *hex, *none = "NOASSERTION";
	int at = digest_of(checksum, &hex);
	json_t *p;

	purl_of(row, purl);
	write_claim(row, claim, sizeof(claim));
	if (is_direct(row))
		(void)snprintf(comment, sizeof(comment),
			       "direct: a file of no registry, which claims to be %s",
			       claim[0] != '\0' ? claim : "nothing");
	else
		(void)snprintf(comment, sizeof(comment),
			       "registry %s, released at %s, install code %s",
			       member_text(row, "registry", "none"),
			       member_text(row, "released_at", "unknown"),
			       member_text(row, "install_code", "unknown"));
	p = json_pack("{s:s,s:s,s:s,s:b,s:s,s:s,s:s,s:s}", "SPDXID", id, "name", name_of(row),
		      "downloadLocation", none, "filesAnalyzed", 0, "licenseConcluded", none,
		      "licenseDeclared", none, "copyrightText", none, "comment", comment);
	if (p != NULL && !is_direct(row)) {
		(void)json_object_set_new(p, "versionInfo",
					  json_string(member_text(row, "version", "")));
		(void)json_object_set_new(p, "externalRefs",
					  json_pack("[{s:s,s:s,s:s}]", "referenceCategory",
						    "PACKAGE-MANAGER", "referenceType", "purl",
						    "referenceLocator", purl));
	}
	if (p != NULL && file[0] != '\0')
		(void)json_object_set_new(p, "packageFileName", json_string(file));
	if (p != NULL && at >= 0)
		(void)json_object_set_new(p, "checksums",
					  json_pack("[{s:s,s:s}]", "algorithm", algorithms[at].spdx,
						    "checksumValue", hex));
	return p;
}

/* SPDX has one file for a package: each file of a version is a package, and the document
 * describes each. */
static void add_spdx(const json_t *row, json_t *list, json_t *relations)
{
	OWN_JSON *files = files_of(row);
	const char *name;
	json_t *value;
	unsigned n = 0;
	char id[64];

	json_object_foreach(files, name, value)
	{
		(void)snprintf(id, sizeof(id), "SPDXRef-Package-%llu.%u",
			       (unsigned long long)member_number(row, "seq", 0), ++n);
		(void)json_array_append_new(
			list, spdx_package(row, id, name, member_text(files, name, "")));
		(void)json_array_append_new(relations,
					    json_pack("{s:s,s:s,s:s}", "spdxElementId",
						      "SPDXRef-DOCUMENT", "relationshipType",
						      "DESCRIBES", "relatedSpdxElement", id));
	}
}

static json_t *make_spdx(const char *session, const json_t *packages)
{
	json_t *list = json_array(), *relations = json_array();
	char uuid[UUID_TEXT], now[TIME_TEXT], namespace[UUID_TEXT + 16];

	write_uuid(session, uuid);
	write_now(now);
	(void)snprintf(namespace, sizeof(namespace), "urn:uuid:%s", uuid);
	for (size_t i = 0; i < json_array_size(packages); i++)
		if (is_downloaded(json_array_get(packages, i)))
			add_spdx(json_array_get(packages, i), list, relations);
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:{s:s,s:[s]},s:o,s:o}", "spdxVersion", "SPDX-2.3",
			 "dataLicense", "CC0-1.0", "SPDXID", "SPDXRef-DOCUMENT", "name", session,
			 "documentNamespace", namespace, "creationInfo", "created", now, "creators",
			 "Tool: cordon-" CORDON_VERSION, "packages", list, "relationships",
			 relations);
}

json_t *sbom_make(enum sbom_form form, const char *session, const json_t *packages)
{
	return form == SBOM_SPDX ? make_spdx(session, packages) : make_cyclonedx(session, packages);
}
