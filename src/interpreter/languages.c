#include "languages.h"

#include <stdio.h>
#include <string.h>

static const struct language languages[] = {
	{ .name = "python",
	  .program = "python3",
	  .package = "python3",
	  .script = "python/kernel.py",
	  .argument = "--parent",
	  .forked = true,
	  .at_start = true },
	{ .name = "javascript",
	  .short_name = "js",
	  .program = "node",
	  .package = "nodejs",
	  .script = "javascript/kernel.mjs",
	  .at_start = true },
	{ .name = "typescript",
	  .short_name = "ts",
	  .program = "node",
	  .package = "nodejs",
	  .script = "javascript/kernel.mjs",
	  .argument = "--typescript" },
	{ .name = "bash",
	  .short_name = "sh",
	  .program = "bash",
	  .package = "bash",
	  .script = "bash/kernel.sh",
	  .file = "/dev/fd/250: ",
	  .shown = "bash: " },
	{ .name = "r", .program = "Rscript", .package = "r-base-core", .script = "r/kernel.R" },
	{ .name = "java",
	  .program = "java",
	  .package = "openjdk-17-jdk-headless",
	  .script = "java/Kernel.java" },
};

const struct language *language_at(size_t i)
{
	return i < COUNT(languages) ? &languages[i] : NULL;
}

const struct language *language_find(const char *name)
{
	if (name[0] == '\0')
		return &languages[0];
	for (size_t i = 0; i < COUNT(languages); i++)
		if (strcmp(name, languages[i].name) == 0 ||
		    (languages[i].short_name != NULL && strcmp(name, languages[i].short_name) == 0))
			return &languages[i];
	return NULL;
}

static const char *search_path(void)
{
	extern char **environ;

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, "PATH=", 5) == 0 && (*v)[5] != '\0')
			return *v + 5;
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

int language_program(const struct language *l, char *ret_path, size_t cap, struct err *e)
{
	const char *path = search_path();

	while (*path != '\0') {
		size_t n = strcspn(path, ":");

		if (n > 0 && n + strlen(l->program) + 2 <= cap) {
			(void)snprintf(ret_path, cap, "%.*s/%s", (int)n, path, l->program);
			if (access(ret_path, X_OK) == 0)
				return 0;
		}
		path += n + (path[n] == ':');
	}
	return err_set(e, ERR_NOT_FOUND,
		       "%s is not installed in this template: %s was not found "
		       "(Debian package %s)",
		       l->name, l->program, l->package);
}
