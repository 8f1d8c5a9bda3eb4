/* package_judge.c - see package_judge.h. */
#include "package_judge.h"

void package_judge(const struct packages_policy *p, const struct package_question *q,
		   struct package_answer *ret)
{
	(void)p;
	(void)q;
	*ret = (struct package_answer){ .verdict = PACKAGE_ALLOW };
}

bool package_answer_accepts(const struct package_answer *a, const struct digest *of_file)
{
	(void)a;
	(void)of_file;
	return true;
}
