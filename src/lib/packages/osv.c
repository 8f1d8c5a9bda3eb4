/* osv.c - see osv.h. Members without a use here are ignored, whatever their content: collections of
 * reports grow members. A report with malformed needed members is an error. */
#include "lib/packages/osv.h"

#include <jansson.h>
#include <string.h>

#include "lib/json/json_size.h"

#define DEPTH_MAX 32
#define VALUES_MAX 200000U

struct osv_report {
	int (*on_entry)(void *arg, const struct osv_entry *entry, struct err *e);
	void *arg;
	const char *id;
	size_t *skipped;
};

/* Read OSV's name of an ecosystem. A release may follow behind a colon. */
static bool find_ecosystem(const char *text, enum ecosystem *ret)
{
	static const struct {
		const char *name;
		enum ecosystem ecosystem;
	} known[] = { { "npm", ECO_NPM },    { "PyPI", ECO_PYPI },    { "crates.io", ECO_CARGO },
		      { "Go", ECO_GO },	     { "RubyGems", ECO_GEM }, { "Maven", ECO_MAVEN },
		      { "Debian", ECO_APT }, { "Ubuntu", ECO_APT } };
	size_t n = strcspn(text, ":");

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strlen(known[i].name) != n || memcmp(known[i].name, text, n) != 0)
			continue;
		*ret = known[i].ecosystem;
		return true;
	}
	return false;
}

static bool is_id(const char *id)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

	return strlen(id) < OSV_ID_MAX && strspn(id, letters) == strlen(id);
}

/* Does the range begin at the first version, and have no end? */
static bool is_everything(const json_t *range)
{
	const json_t *events = json_object_get(range, "events");
	bool begins = false, ends = false;

	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);
		const char *from = json_string_value(json_object_get(event, "introduced"));

		begins |= from != NULL && strcmp(from, "0") == 0;
		ends |= json_object_get(event, "fixed") != NULL ||
			json_object_get(event, "last_affected") != NULL;
	}
	return begins && !ends;
}

/* Are all versions affected? */
static bool is_all(const json_t *affected)
{
	const json_t *ranges = json_object_get(affected, "ranges");

	if (json_array_size(json_object_get(affected, "versions")) == 0)
		return true;
	for (size_t i = 0; i < json_array_size(ranges); i++)
		if (is_everything(json_array_get(ranges, i)))
			return true;
	return false;
}

/* Pass on each version. An unusable version is counted, not an error. */
static int give_versions(const struct osv_report *r, struct osv_entry *entry,
			 const json_t *affected, struct err *e)
{
	const json_t *versions = json_object_get(affected, "versions");

	if (is_all(affected)) {
		entry->version = "*";
		return r->on_entry(r->arg, entry, e);
	}
	for (size_t i = 0; i < json_array_size(versions); i++) {
		entry->version = json_string_value(json_array_get(versions, i));
		if (entry->version == NULL ||
		    !package_version_ok(entry->ecosystem, entry->version, strlen(entry->version)))
			++*r->skipped;
		else if (r->on_entry(r->arg, entry, e) < 0)
			return -1;
	}
	return 0;
}

static int give_affected(const struct osv_report *r, const json_t *affected, struct err *e)
{
	const json_t *package = json_object_get(affected, "package");
	const char *eco = json_string_value(json_object_get(package, "ecosystem"));
	const char *name = json_string_value(json_object_get(package, "name"));
	struct osv_entry entry = { .id = r->id };
	char normal[PACKAGE_NAME_MAX];

	if (eco == NULL || name == NULL)
		return err_set(e, ERR_INVALID, "affected: no package with ecosystem and name");
	if (!find_ecosystem(eco, &entry.ecosystem) ||
	    !package_name_normal(entry.ecosystem, name, strlen(name), normal)) {
		++*r->skipped;
		return 0;
	}
	entry.name = normal;
	return give_versions(r, &entry, affected, e);
}

static int give_all(struct osv_report *r, const json_t *root, struct err *e)
{
	const json_t *affected = json_object_get(root, "affected");

	r->id = json_string_value(json_object_get(root, "id"));
	if (r->id == NULL || !is_id(r->id))
		return err_set(e, ERR_INVALID, "no id, or a malformed one");
	if (strncmp(r->id, "MAL-", 4) != 0 || strncmp(r->id, "MAL-0000-", 9) == 0 ||
	    json_object_get(root, "withdrawn") != NULL) {
		++*r->skipped;
		return 0;
	}
	for (size_t i = 0; i < json_array_size(affected); i++)
		if (give_affected(r, json_array_get(affected, i), e) < 0)
			return -1;
	return 0;
}

int osv_read(const char *text, size_t len,
	     int (*on_entry)(void *arg, const struct osv_entry *entry, struct err *e), void *arg,
	     size_t *ret_skipped, struct err *e)
{
	struct osv_report r = { .on_entry = on_entry, .arg = arg, .skipped = ret_skipped };
	json_t *root;
	int result;

	*ret_skipped = 0;
	if (len > OSV_TEXT_MAX || !json_size_fits(text, len, DEPTH_MAX, VALUES_MAX))
		return err_set(e, ERR_LIMIT, "more than %u bytes or %u values, or too deep",
			       OSV_TEXT_MAX, VALUES_MAX);
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(e, ERR_INVALID, "not a JSON object");
	}
	result = give_all(&r, root, e);
	json_decref(root);
	return result;
}
