#include "pull_spec.h"

#include <stdio.h>
#include <string.h>

#include "template_name.h"

void pull_spec_host_name(const char *host, char ret[OCI_REF_HOST_MAX])
{
	const char *end = strrchr(host, ']'), *colon = strrchr(host, ':');
	size_t n = colon != NULL && (end == NULL || colon > end) ? (size_t)(colon - host)
								 : strlen(host);

	(void)snprintf(ret, OCI_REF_HOST_MAX, "%.*s", (int)n, host);
}

static int add_tag(struct image_pull *p, const char *tag, struct err *e)
{
	size_t n = p->make.ntags;

	if (n >= IMAGE_TAGS_MAX)
		return err_set(e, ERR_LIMIT, "at most %d tags", IMAGE_TAGS_MAX);
	if (!template_name_is_tag(tag) || strlen(tag) >= STORE_TAG_MAX)
		return err_set(e, ERR_INVALID, "Invalid tag: %.100s", tag);
	(void)snprintf(p->tag_texts[n], STORE_TAG_MAX, "%s", tag);
	p->tags[n] = p->tag_texts[n];
	p->make.ntags++;
	return 0;
}

/* "library/python" becomes "python"; what a name may not have becomes '-'. */
static void name_of_path(const char *path, char ret[STORE_NAME_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t n = 0;

	for (const char *at = slash == NULL ? path : slash + 1; *at != '\0' && n < 62; at++)
		ret[n++] = (char)(*at == '.' ? '-' : *at);
	ret[n] = '\0';
}

static int read_name(struct image_pull *p, const struct image_pull_spec *spec, struct err *e)
{
	struct template_name name = { 0 };

	if (spec->name == NULL || spec->name[0] == '\0') {
		name_of_path(p->ref.path, p->name);
		if (!p->ref.has_digest && strcmp(p->ref.tag, "latest") != 0 &&
		    template_name_is_tag(p->ref.tag))
			(void)snprintf(name.tag, sizeof(name.tag), "%s", p->ref.tag);
	} else {
		if (template_name_read(spec->name, &name, e) < 0)
			return -1;
		(void)snprintf(p->name, sizeof(p->name), "%s", name.name);
	}
	if (name.space[0] != '\0' || !templates_is_name(p->name))
		return err_set(e, ERR_INVALID, "Invalid name: %.100s",
			       name.space[0] != '\0' ? spec->name : p->name);
	return name.tag[0] == '\0' ? 0 : add_tag(p, name.tag, e);
}

int pull_spec_read(struct image_pull *p, const struct image_pull_spec *spec, struct err *e)
{
	p->make.ntags = 0;
	if (oci_ref_read(spec->reference, &p->ref, e) < 0)
		return err_wrap(e, "reference");
	oci_ref_text(&p->ref, p->reference);
	if (read_name(p, spec, e) < 0)
		return -1;
	for (size_t i = 0; i < spec->ntags; i++)
		if (add_tag(p, spec->tags[i], e) < 0)
			return -1;
	return 0;
}

void pull_spec_explain(const char *reference, const char *word, struct err *e)
{
	struct err why = *e;

	if (e->code == ERR_NOT_FOUND && strcmp(word, "NAME_UNKNOWN") == 0)
		(void)err_set(e, ERR_NOT_FOUND,
			      "repository '%.120s' not found: verify the image name is correct",
			      reference);
	else if (e->code == ERR_NOT_FOUND && word[0] != '\0')
		(void)err_set(e, ERR_NOT_FOUND,
			      "image '%.120s' not found: the image or tag does not exist in the "
			      "registry",
			      reference);
	else if (e->code == ERR_DENIED && word[0] != '\0')
		(void)err_set(e, ERR_DENIED,
			      "access denied to '%.120s': authentication required or insufficient "
			      "permissions",
			      reference);
	else if (e->reason == REASON_NONE)
		(void)err_set(e, why.code, "failed to pull image '%.100s': %.110s", reference,
			      why.msg);
	else
		(void)err_set_reason(e, why.reason, "failed to pull image '%.100s': %.110s",
				     reference, why.msg);
	e->sys = why.sys;
}
