#include "network_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "policy_select.h"
#include "own.h"
#include "policy.h"

static int check_policy(struct err *e)
{
	OWN_MEM char *text = malloc(POLICY_TEXT_MAX + 1);
	struct policy *p = NULL;
	size_t n;

	if (text == NULL)
		return err_sys(e, "egress_policy");
	n = fread(text, 1, POLICY_TEXT_MAX + 1, stdin);
	if (n == 0)
		return 0;
	if (policy_read(text, n, POLICY_NODE, &p, e) < 0)
		return err_wrap(e, "egress_policy");
	policy_free(p);
	return 0;
}

static int check_presets(const char *setting, const char *presets, struct err *e)
{
	OWN_MEM char *document = NULL;

	if (policy_select_presets(presets, &document, e) < 0)
		return err_wrap(e, "%s", setting);
	return 0;
}

int network_check(const char *presets, const char *of_builds)
{
	struct err e = { 0 };
	int good = check_presets("network_default", presets, &e);

	if (good == 0 && of_builds[0] != '\0')
		good = check_presets("build_network", of_builds, &e);
	if (good == 0)
		good = check_policy(&e);
	if (good < 0)
		(void)fprintf(stderr, "%s\n", e.msg);
	return good < 0 ? 1 : 0;
}
