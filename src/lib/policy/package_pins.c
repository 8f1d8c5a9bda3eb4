/* package_pins.c - see package_pins.h. Pins are sorted and found by bisection, like patterns. The
 * digests of a version are a set: PyPI has one digest for each file of a version. */
#include "lib/policy/package_pins.h"

#include <stdio.h>
#include <string.h>

/* A version, and at most one of its digests. */
struct item {
	enum ecosystem ecosystem;
	const char *name, *version;
	struct digest digest;
};

/* The list under construction. */
struct package_pins_items {
	struct policy *p;
	struct package_arena *arena;
	struct item *list;
	size_t n;
};

static int package_pins_compare(const struct item *a, const struct item *b)
{
	int order;

	if (a->ecosystem != b->ecosystem)
		return a->ecosystem < b->ecosystem ? -1 : 1;
	order = strcmp(a->name, b->name);
	return order != 0 ? order : strcmp(a->version, b->version);
}

static int compare_items(const void *one, const void *other)
{
	return package_pins_compare(one, other);
}

/* go.sum has lines for the go.mod of a module alone: "v1.0.0/go.mod". */
static bool is_version(enum ecosystem eco, const char *text, size_t n)
{
	size_t tail = strlen(PACKAGE_GO_MOD);

	if (eco == ECO_GO && n > tail && memcmp(text + n - tail, PACKAGE_GO_MOD, tail) == 0)
		n -= tail;
	return package_version_ok(eco, text, n);
}

/* Read "VERSION [DIGEST...]". A version without digests is an item, too. */
static int add_text(struct package_pins_items *to, const struct package_name *name,
		    const char *kept, const char *text, const char *at, struct err *e)
{
	size_t n = strcspn(text, " ");
	const char *version = package_arena_keep(to->p, to->arena, text, n);
	struct item one = { .ecosystem = name->ecosystem, .name = kept, .version = version };

	if (version == NULL)
		return policy_no_memory(e);
	if (!is_version(name->ecosystem, text, n))
		return policy_value_fail(e, at, "", "'%.60s' does not begin with a version", text);
	do {
		text += n + (text[n] == ' ');
		n = strcspn(text, " ");
		if (n > 0 && !digest_read(text, n, &one.digest))
			return policy_value_fail(
				e, at, "", "'%.60s' is not a digest such as sha256:... or h1:...",
				text);
		if (n > 0 && !digest_is_strong(&one.digest))
			return policy_value_fail(e, at, "", "'%.60s' is too weak for a pin", text);
		if (to->n == PACKAGE_PINS_MAX)
			return err_set(e, ERR_LIMIT, "packages.pins: more than %d pins",
				       PACKAGE_PINS_MAX);
		to->list[to->n++] = one;
	} while (text[n] != '\0');
	return 0;
}

/* Read all versions of one "ECOSYSTEM:NAME". */
static int add_name(struct package_pins_items *to, const char *key, const json_t *versions,
		    const char *at, struct err *e)
{
	struct package_name name;
	const char *kept;
	char place[160];

	(void)snprintf(place, sizeof(place), "%s.pins.%.80s", at, key);
	if (!package_name_read(key, false, &name) || name.version[0] != '\0')
		return policy_value_fail(e, place, "", "must be ECOSYSTEM:NAME");
	if (!json_is_array(versions))
		return policy_value_fail(e, place, "", "must be a list of versions");
	kept = package_arena_keep(to->p, to->arena, name.name, strlen(name.name));
	if (kept == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < json_array_size(versions); i++) {
		const char *text = json_string_value(json_array_get(versions, i));

		if (text == NULL)
			return policy_value_fail(e, place, "", "must be a list of texts");
		if (add_text(to, &name, kept, text, place, e) < 0)
			return -1;
	}
	return 0;
}

/* Make one pin of items that differ only in their digests. */
static void package_pins_group(const struct package_pins_items *from, struct package_pin_table *to)
{
	uint32_t digests = 0;

	for (size_t i = 0; i < from->n; i++) {
		const struct item *one = &from->list[i];

		if (i == 0 || package_pins_compare(one, &from->list[i - 1]) != 0)
			to->pins[to->npins++] = (struct package_pin){ .ecosystem = one->ecosystem,
								      .name = one->name,
								      .version = one->version,
								      .first = digests };
		if (one->digest.alg == DIGEST_NONE)
			continue;
		to->digests[digests++] = one->digest;
		to->pins[to->npins - 1].n++;
	}
}

/* Bound the number of items. add_text() counts exactly and fails. */
static size_t count_texts(const json_t *v)
{
	const char *key;
	json_t *versions;
	size_t n = 0;

	json_object_foreach((json_t *)(uintptr_t)v, key, versions)
	{
		for (size_t i = 0; i < json_array_size(versions); i++) {
			const char *text = json_string_value(json_array_get(versions, i));

			for (n++; text != NULL && *text != '\0'; text++)
				n += *text == ' ';
		}
	}
	return n < PACKAGE_PINS_MAX ? n : PACKAGE_PINS_MAX;
}

int package_pins_read(struct policy *p, struct package_arena *a, const json_t *v, const char *at,
		      struct package_pin_table *ret, struct err *e)
{
	size_t n = count_texts(v);
	OWN_MEM struct item *list = calloc(n + 1, sizeof(*list));
	struct package_pins_items all = { .p = p, .arena = a, .list = list };
	const char *key;
	json_t *versions;

	*ret = (struct package_pin_table){ .given = v != NULL };
	if (v != NULL && !json_is_object(v))
		return policy_value_fail(e, at, "pins", "must be an object");
	if (list == NULL)
		return policy_no_memory(e);
	json_object_foreach((json_t *)(uintptr_t)v, key, versions)
	{
		if (add_name(&all, key, versions, at, e) < 0)
			return -1;
	}
	if (all.n == 0)
		return 0;
	qsort(list, all.n, sizeof(*list), compare_items);
	ret->pins = policy_alloc(p, all.n, sizeof(*ret->pins));
	ret->digests = policy_alloc(p, all.n, sizeof(*ret->digests));
	if (ret->pins == NULL || ret->digests == NULL)
		return policy_no_memory(e);
	package_pins_group(&all, ret);
	return 0;
}

/* The first pin not below the key. */
static size_t lower_bound(const struct package_pin_table *t, const struct item *key)
{
	size_t low = 0, high = t->npins;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct package_pin *pin = &t->pins[mid];
		const struct item at = { .ecosystem = pin->ecosystem,
					 .name = pin->name,
					 .version = pin->version };

		if (package_pins_compare(&at, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool has_name(const struct package_pin_table *t, size_t i, const struct item *key)
{
	return i < t->npins && t->pins[i].ecosystem == key->ecosystem &&
	       strcmp(t->pins[i].name, key->name) == 0;
}

bool package_pins_name(const struct package_pin_table *t, enum ecosystem eco, const char *name)
{
	const struct item key = { .ecosystem = eco, .name = name, .version = "" };

	return has_name(t, lower_bound(t, &key), &key);
}

const struct package_pin *package_pins_find(const struct package_pin_table *t, enum ecosystem eco,
					    const char *name, const char *version)
{
	const struct item key = { .ecosystem = eco, .name = name, .version = version };
	size_t i = lower_bound(t, &key);

	if (!has_name(t, i, &key) || strcmp(t->pins[i].version, version) != 0)
		return NULL;
	return &t->pins[i];
}
