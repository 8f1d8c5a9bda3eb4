/* package_judge.c - theory of operation
 *
 * Decides about a request for a package in two rounds over the layers. The first round needs names
 * only and is cheap: mode, registry, kind of request, lists of names, advisories, pins. The second
 * round needs the registry's metadata: install code, size, age. So no registry is asked about a
 * refused name. A rule of a layer can only refuse, and a later layer cannot take a refusal back. A
 * request that no rule refuses is allowed.
 *
 * Everything unknown counts against the request: a version missing from the metadata, an age that
 * no registry tells, install code that only the file would show. */
#include "lib/policy/package_judge.h"

#include <stdio.h>
#include <string.h>

#include "lib/packages/advisories.h"
#include "lib/packages/digest.h"
#include "lib/packages/package_facts.h"
#include "lib/policy/package_name_forms.h"
#include "lib/policy/package_reason.h"
#include "lib/policy/packages_private.h"

/* One decision in progress. */
struct judge {
	const struct packages_policy *all;
	const struct package_question *q;
	const struct package_request *r;
	const struct packages_entry *entry; /* NULL: a direct URL */
	const struct packages_layer *layer; /* the layer that decides now */
	enum policy_layer which;
	struct package_answer *ret;
	/* Set by searches in lists: the place of a pattern, and the id of an advisory. */
	uint32_t *number;
	char *advisory;
};

/* Write the refusal. The value is false, the answer of all may_*() functions. */
#define REFUSE(j, ...) (package_reason_set((j)->ret, (j)->q, (j)->which, __VA_ARGS__), false)

/* Is it a request for a file, or for metadata of one file? */
static bool is_of_file(const struct package_request *r)
{
	return r->kind == PACKAGE_FILE || r->kind == PACKAGE_FILEMETA;
}

/* Is it about one version? Lookups in Go's checksum database are, although they are not about a
 * file. */
static bool is_of_version(const struct package_request *r)
{
	return is_of_file(r) || (r->kind == PACKAGE_KEY && r->name[0] != '\0');
}

/* Does the request tell a server the name of the package? Then the lists of names count. */
static bool tells_name(const struct package_request *r)
{
	return is_of_version(r) || (r->kind == PACKAGE_META && r->name[0] != '\0');
}

/* The version for lists. NULL: the request is about all versions. */
static const char *version_of(const struct package_request *r)
{
	return is_of_version(r) ? r->version : NULL;
}

static bool package_judge_fits(const struct judge *j, const struct package_patterns *list,
			       bool unknown, uint32_t *ret)
{
	return package_patterns_fit(list, j->r->ecosystem, j->r->name, version_of(j->r), unknown,
				    ret);
}

/* ---- names */

/* The reason lists the registries of the policy, so that an agent knows where to look instead. */
static bool refuse_unlisted(const struct judge *j)
{
	const struct packages_entries *all = &j->all->registries;
	char names[160] = "";
	size_t len = 0;

	for (size_t i = 0; i < all->n && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%.60s",
					i > 0 ? ", " : "", all->list[i].registry.name);
	return REFUSE(j, "registries",
		      "is refused: %s is not among the registries of this policy%s%s%s",
		      j->entry->registry.name, len > 0 ? " (" : "", names, len > 0 ? ")" : "");
}

/* May this registry be asked at all? */
static bool may_registry(const struct judge *j)
{
	if (j->entry == NULL) {
		if (j->layer->no_direct)
			return REFUSE(j, "direct", "is no file of a registry; %s allows no others",
				      package_reason_who(j->which));
		if (j->r->ecosystem == ECO_APT)
			return REFUSE(j, "registries",
				      "is a system package: apt needs a registry "
				      "in the policy");
		return true;
	}
	if (!j->entry->registry.is_implicit)
		return true;
	if (j->r->ecosystem == ECO_APT)
		return REFUSE(j, "registries",
			      "is refused: system packages (apt) are off unless the policy lists "
			      "a registry for them");
	if (j->all->registries.given)
		return refuse_unlisted(j);
	return true;
}

/* The checksum database of a Go proxy. A proxy passes requests on to any database, so the name of
 * the database must not carry data out of the cell. */
static bool may_database(const struct judge *j)
{
	const char *name = j->r->file;
	const char *listed = j->entry == NULL ? NULL : j->entry->registry.sumdb;

	if (j->r->ecosystem != ECO_GO || name[0] == '\0' || strcmp(name, "sum.golang.org") == 0 ||
	    (listed != NULL && strcmp(name, listed) == 0))
		return true;
	return REFUSE(j, "registries",
		      "is refused: %.60s is not the checksum database of this registry", name);
}

/* May requests of this kind be sent? */
static bool may_kind(const struct judge *j)
{
	const struct packages_layer *l = j->layer;

	switch (j->r->kind) {
	case PACKAGE_PUBLISH:
	case PACKAGE_AUTH:
		return l->publish ||
		       REFUSE(j, "publish", "is refused: %s may not publish packages or log in",
			      package_reason_who(j->which));
	case PACKAGE_SEARCH:
		return l->search || REFUSE(j, "search", "is refused: %s may not search registries",
					   package_reason_who(j->which));
	case PACKAGE_AUDIT:
		return l->audit ||
		       REFUSE(j, "audit", "is refused: %s may not send lists of its packages",
			      package_reason_who(j->which));
	case PACKAGE_INDEX:
		return j->r->form != FORM_ALL_NAMES ||
		       REFUSE(j, "registries", "is refused: the list of all names is not served");
	case PACKAGE_OTHER:
		return REFUSE(j, "registries", "is refused: no known request of a package manager");
	case PACKAGE_KEY:
		return may_database(j);
	case PACKAGE_META:
	case PACKAGE_FILE:
	case PACKAGE_FILEMETA:
	case PACKAGE_KINDS:
		break;
	}
	return true;
}

/* ---- names with a prefix */

/* Does only a lower layer list this registry, and is its host not built in? Then that lower layer
 * chose how names are read at the host. */
static bool is_stranger(const struct judge *j)
{
	return j->entry != NULL && j->which < j->entry->layer && j->entry->registry.base == NULL &&
	       packages_built_in(&j->entry->registry) == NULL;
}

/* The next form of a name that a refusal must compare. */
static const char *next_form(const struct judge *j, const char *name)
{
	bool loose = j->entry == NULL || j->q->is_loose || is_stranger(j);

	return loose ? package_form_behind(j->r->ecosystem, name) : NULL;
}

/* Does the name fit in one of the forms that a refusal must compare? */
static bool any_form(const struct judge *j, bool (*is)(const struct judge *j, const char *name))
{
	char text[PACKAGE_NAME_MAX];
	const char *name = j->r->name;

	for (; name != NULL; name = next_form(j, name))
		if (is(j, name))
			return true;
	for (unsigned i = 0; (name = package_form_in_front(j->q, j->r, i, text)) != NULL; i++)
		if (name[0] != '\0' && is(j, name))
			return true;
	return false;
}

static bool fits_own(const struct judge *j, const char *name)
{
	uint32_t number;

	return package_patterns_fit(&j->layer->own, j->r->ecosystem, name, version_of(j->r), true,
				    &number);
}

/* An `own` name is served by registries marked private only. */
static bool may_own(const struct judge *j)
{
	if (!any_form(j, fits_own) || (j->entry != NULL && j->entry->is_private[j->which]))
		return true;
	j->ret->is_absent = true;
	return REFUSE(j, "own", "does not exist here: the name belongs to a private registry");
}

/* A pattern with a version denies no name, but it denies every file of unknown version. */
static bool fits_deny(const struct judge *j, const char *name)
{
	/* only the tag tells the version of an image */
	bool has_tag = j->r->form == FORM_OCI_MANIFEST;
	const char *version = is_of_version(j->r) || has_tag ? j->r->version : "";

	return package_patterns_fit(&j->layer->deny, j->r->ecosystem, name, version,
				    is_of_version(j->r), j->number);
}

/* A denied repository may appear in the path of other requests than git's. */
static bool is_path_denied(const struct judge *j)
{
	return j->q->path != NULL && j->q->git_starts > 0 &&
	       package_patterns_path(&j->layer->deny, j->q->path, j->q->git_starts, j->number);
}

static bool may_deny(const struct judge *j)
{
	char rule[32];

	if (!any_form(j, fits_deny) && !is_path_denied(j))
		return true;
	(void)snprintf(rule, sizeof(rule), "deny[%u]", *j->number);
	return REFUSE(j, rule, "is denied by the policy of %s", package_reason_who(j->which));
}

/* All lists of names of a layer. */
static bool may_name(const struct judge *j)
{
	uint32_t number = 0;

	if (!may_deny(j))
		return false;
	if (j->layer->allow.given && !package_judge_fits(j, &j->layer->allow, false, &number))
		return REFUSE(j, "allow", "is not in the list of packages that %s allows",
			      package_reason_who(j->which));
	return may_own(j);
}

static bool fits_advisory(const struct judge *j, const char *name)
{
	return advisories_find(j->q->advisories, j->r->ecosystem, name, version_of(j->r),
			       j->advisory);
}

static bool may_advisory(const struct judge *j)
{
	if (j->layer->no_advisories || j->q->advisories == NULL || !any_form(j, fits_advisory))
		return true;
	return REFUSE(j, "advisories", "is known as malicious: %s", j->advisory);
}

/* ---- pins */

/* Do the pins of layer i count for this layer? Its own pins do, or without own pins those of lower
 * layers. */
static bool pins_count(const struct judge *j, size_t i)
{
	return j->layer->pins.given ? i == (size_t)j->which : i > (size_t)j->which;
}

/* Go reads go.mod of modules that it does not install, so go.sum has pins for go.mod alone. */
static bool is_mod_pinned(const struct package_pin_table *t, const struct package_request *r)
{
	char version[PACKAGE_VERSION_MAX + sizeof(PACKAGE_GO_MOD)];

	if (r->form != FORM_GO_MOD && r->form != FORM_GO_INFO && r->form != FORM_GO_SUMDB)
		return false;
	(void)snprintf(version, sizeof(version), "%s" PACKAGE_GO_MOD, r->version);
	return package_pins_find(t, r->ecosystem, r->name, version) != NULL;
}

static bool is_pinned(const struct judge *j)
{
	const struct package_request *r = j->r;

	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		const struct package_pin_table *t = &j->all->layers[i].pins;

		if (!pins_count(j, i) || !package_pins_name(t, r->ecosystem, r->name))
			continue;
		/* git tells the version only to the server, and verifies commits itself. */
		if (!is_of_version(r) || r->form == FORM_GIT_PACK || r->form == FORM_GIT_DUMB ||
		    package_pins_find(t, r->ecosystem, r->name, r->version) != NULL ||
		    is_mod_pinned(t, r))
			return true;
	}
	return false;
}

/* In pinned mode only pinned packages pass. In every mode, the digests of a pin are handed to the
 * caller, which compares the file with them. */
static bool may_pins(const struct judge *j)
{
	const struct package_pin_table *t = &j->layer->pins;
	const struct package_pin *pin =
		package_pins_find(t, j->r->ecosystem, j->r->name, j->r->version);

	if (j->layer->mode == PACKAGES_PINNED && j->r->name[0] != '\0' && !is_pinned(j))
		return REFUSE(j, "mode", "is not pinned; %s installs pinned packages only",
			      package_reason_who(j->which));
	if (j->layer->mode == PACKAGES_PINNED && j->r->kind == PACKAGE_FILE &&
	    j->r->name[0] == '\0')
		return REFUSE(j, "mode", "tells no name; %s installs pinned packages only",
			      package_reason_who(j->which));
	if (j->r->kind == PACKAGE_FILE && pin != NULL)
		j->ret->pins[j->which] = (struct package_pins){ &t->digests[pin->first], pin->n };
	return true;
}

/* Judge the request as if the lower layer had no entry for this host. */
static bool may_direct(const struct judge *j)
{
	struct package_pins before = j->ret->pins[j->which];
	struct judge direct = *j;
	bool may;

	direct.r = j->q->direct;
	direct.entry = NULL;
	may = !tells_name(direct.r) ||
	      (may_name(&direct) && may_advisory(&direct) && may_pins(&direct));
	/* the direct file may belong to another ecosystem, whose pins are not for this file */
	j->ret->pins[j->which] = before;
	return may;
}

/* The first round. */
static bool may_names(const struct judge *j)
{
	if (j->layer->mode == PACKAGES_OFFLINE) {
		package_reason_set(j->ret, j->q, j->which, "mode", "is refused");
		(void)snprintf(j->ret->reason, sizeof(j->ret->reason),
			       "packages are off in this session; the template must have them "
			       "(packages.mode)");
		j->ret->is_offline = true;
		return false;
	}
	if (!may_registry(j) || !may_kind(j))
		return false;
	/* A registry of another ecosystem may be stored below the name of a repository. */
	if (is_path_denied(j))
		return may_deny(j);
	if (j->q->direct != NULL && is_stranger(j) && !may_direct(j))
		return false;
	/* Indexes and apt's lists have no name. */
	return !tells_name(j->r) || (may_name(j) && may_advisory(j) && may_pins(j));
}

/* ---- facts */

/* Compare the digest of the metadata with the pins. A pin with another algorithm is compared when
 * the file arrives. */
static bool may_digest(const struct judge *j)
{
	const struct package_pins *pins = &j->ret->pins[j->which];
	const struct digest *found = &j->q->facts->digest;
	bool comparable = false;

	for (size_t i = 0; i < pins->n; i++) {
		if (digest_equal(&pins->list[i], found))
			return true;
		comparable |= pins->list[i].alg == found->alg;
	}
	return !comparable || REFUSE(j, "pins", "has another digest in the registry than its pin");
}

/* Installing packages of these ecosystems runs no code of the package. */
static bool runs_nothing(enum ecosystem eco)
{
	return eco == ECO_GO || eco == ECO_MAVEN || eco == ECO_OCI || eco == ECO_GIT ||
	       /* apt always runs scripts. A layer switches apt as a whole instead */
	       eco == ECO_APT;
}

static bool may_source(const struct judge *j)
{
	if (!j->r->source || j->layer->sources == PACKAGES_PASS)
		return true;
	if (j->layer->sources == PACKAGES_ASK)
		return REFUSE(j, "sources",
			      "is built from source, which needs an approval; those are not "
			      "possible yet");
	return REFUSE(j, "sources", "is built from source, which %s does not allow",
		      package_reason_who(j->which));
}

/* Lists keep versions with install code, and their files are refused. For many packages every
 * useful version has install code. A resolver that does not see these versions would silently
 * install a version years old. */
static bool may_scripts(const struct judge *j)
{
	enum install_code code = j->r->source ? INSTALL_CODE_YES : j->q->facts->install_code;
	const char *runs = code == INSTALL_CODE_YES ? "runs code when it is installed"
						    : "may run code when it is installed";
	uint32_t number;

	if (j->q->is_in_list || j->layer->scripts == PACKAGES_PASS || code == INSTALL_CODE_NO ||
	    (!j->r->source && runs_nothing(j->r->ecosystem)) ||
	    package_judge_fits(j, &j->layer->scripts_except, false, &number))
		return true;
	if (j->layer->scripts == PACKAGES_ASK)
		return REFUSE(j, "scripts", "%s; that needs an approval, not possible yet", runs);
	return REFUSE(j, "scripts", "%s, which %s does not allow", runs,
		      package_reason_who(j->which));
}

static bool may_size(const struct judge *j)
{
	uint64_t max = j->layer->limits.file_bytes, size = j->q->facts->size;

	return max == 0 || size <= max ||
	       REFUSE(j, "file_bytes", "has %llu bytes, %s allows %llu for a file",
		      (unsigned long long)size, package_reason_who(j->which),
		      (unsigned long long)max);
}

/* The time from which the age counts, 0: unknown. Authors set the times of Go modules, so the
 * node's own first sight counts, too, unless the layer trusts unknown ages. */
static uint64_t package_judge_released(const struct judge *j, bool trusts)
{
	const struct package_facts *f = j->q->facts;
	uint64_t seen = j->q->first_seen_ms;

	if (!f->has_time)
		return seen;
	if (!j->q->is_backdated && (j->r->ecosystem != ECO_GO || trusts))
		return f->time_ms;
	return seen == 0 ? 0 : seen > f->time_ms ? seen : f->time_ms;
}

/* A package without any known time passes only if the layer or the registry's entry trusts unknown
 * ages. */
static bool may_age(const struct judge *j)
{
	bool trusts =
		j->layer->unknown_age || (j->entry != NULL && j->entry->unknown_age[j->which]);
	uint64_t since = package_judge_released(j, trusts), now = j->q->now_ms,
		 age = since < now ? now - since : 0;
	char is[PACKAGE_AGE_TEXT_MAX], wants[PACKAGE_AGE_TEXT_MAX];
	uint32_t number;

	if (j->layer->min_age_ms == 0 ||
	    package_judge_fits(j, &j->layer->min_age_except, false, &number))
		return true;
	package_reason_age(j->layer->min_age_ms, wants);
	if (since == 0)
		return trusts || REFUSE(j, "min_age", "has no known age, %s wants %s",
					package_reason_who(j->which), wants);
	if (age >= j->layer->min_age_ms || (!j->q->facts->has_time && trusts))
		return true;
	package_reason_age(age, is);
	if (!j->q->facts->has_time || since != j->q->facts->time_ms)
		return REFUSE(j, "min_age", "was first seen %s ago, %s wants %s", is,
			      package_reason_who(j->which), wants);
	return REFUSE(j, "min_age", "is %s old, %s wants %s", is, package_reason_who(j->which),
		      wants);
}

/* Does the layer need metadata for this request? Digests and sizes are compared again while the
 * file arrives, so they alone do not cost a question to the registry. */
static bool needs_facts(const struct judge *j)
{
	const struct packages_layer *l = j->layer;

	return l->min_age_ms != 0 || (j->r->kind == PACKAGE_FILE && l->scripts != PACKAGES_PASS &&
				      !j->r->source && !runs_nothing(j->r->ecosystem));
}

/* The second round. */
static bool may_facts(const struct judge *j)
{
	if (!may_age(j))
		return false;
	if (j->r->kind != PACKAGE_FILE)
		return true;
	return may_digest(j) && may_source(j) && may_scripts(j) && may_size(j);
}

/* ---- both rounds */

/* Ask each layer with a packages member. Stop at the first refusal. */
static bool each_layer(struct judge *j, bool (*may)(const struct judge *j))
{
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		j->layer = &j->all->layers[i];
		j->which = (enum policy_layer)i;
		if (j->layer->given && !may(j))
			return false;
	}
	return true;
}

static bool needs_no_facts(const struct judge *j)
{
	return !needs_facts(j);
}

/* Is it a page at the host of a git server or an image registry? Such a page is not about
 * packages. */
static bool is_page(const struct judge *j)
{
	return j->r->kind == PACKAGE_OTHER && !j->r->is_lookalike && j->entry != NULL &&
	       (j->entry->registry.ecosystem == ECO_GIT || j->entry->registry.ecosystem == ECO_OCI);
}

void package_judge(const struct packages_policy *p, const struct package_question *q,
		   struct package_answer *ret)
{
	static const struct package_facts unknown = { .version = "", .file = "" };
	struct package_question asked = *q;
	char advisory[ADVISORY_ID_MAX] = "";
	uint32_t number = 0;
	struct judge j = { .all = p,
			   .q = &asked,
			   .r = q->request,
			   .ret = ret,
			   .number = &number,
			   .advisory = advisory };

	*ret = (struct package_answer){ .verdict = PACKAGE_ALLOW };
	if (p == NULL)
		return;
	/* A file of another ecosystem does not belong to the registry, even at its host. */
	if (q->registry != NULL && q->registry->ecosystem == q->request->ecosystem)
		j.entry = packages_entry_of(q->registry);
	if (is_page(&j)) {
		/* Below the name of a denied repository there are no pages, either. */
		if (each_layer(&j, may_deny))
			ret->verdict = PACKAGE_BY_RULES;
		return;
	}
	if (!each_layer(&j, may_names) || !is_of_file(q->request))
		return;
	/* No metadata describes a file at another host. */
	if (asked.facts == NULL && j.entry == NULL)
		asked.facts = &unknown;
	if (asked.facts == NULL && !each_layer(&j, needs_no_facts)) {
		ret->verdict = PACKAGE_NEEDS_FACTS;
		return;
	}
	if (asked.facts == NULL)
		asked.facts = &unknown;
	(void)each_layer(&j, may_facts);
}

bool package_judge_has(const struct packages_policy *p, size_t layer)
{
	return p != NULL && layer < POLICY_LAYERS && p->layers[layer].given;
}

void package_judge_layer(const struct packages_policy *p, size_t layer,
			 const struct package_question *q, struct package_answer *ret)
{
	struct packages_policy one;

	if (p == NULL) {
		package_judge(NULL, q, ret);
		return;
	}
	one = *p;
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		one.layers[i].given = i == layer && p->layers[i].given;
	package_judge(&one, q, ret);
}

bool package_answer_accepts(const struct package_answer *a, const struct digest *of_file)
{
	for (size_t i = 0; i < COUNT(a->pins); i++) {
		bool found = a->pins[i].n == 0;

		for (size_t k = 0; k < a->pins[i].n && !found; k++)
			found = digest_equal(&a->pins[i].list[k], of_file);
		if (!found)
			return false;
	}
	return true;
}
