#include "profile.h"

#include <linux/filter.h>
#include <stdio.h>
#include <string.h>

#include "cell_spec.h"
#include "exit_codes.h"
#include "seccomp_program.h"

static int profile_main(int argc, char **argv)
{
	bool locked = argc > 0 && strcmp(argv[0], cell_profile_name(CELL_LOCKED)) == 0;

	if (argc > 0 && strcmp(argv[0], "--help") == 0) {
		options_help(&profile_verb, stdout);
		return 0;
	}
	if (argc > 1 ||
	    (argc == 1 && !locked && strcmp(argv[0], cell_profile_name(CELL_STANDARD)) != 0)) {
		(void)fprintf(stderr, "cordon: profile: '%.40s' is neither standard nor locked\n",
			      argv[argc - 1]);
		return EXIT_CORDON;
	}
	for (size_t i = 0; i < COUNT(seccomp_names); i++)
		(void)printf("%-28s %s\n", seccomp_names[i].name,
			     locked ? seccomp_names[i].locked : seccomp_names[i].standard);
	(void)printf("%-28s %s\n", "(every other call)", "enosys");
	return 0;
}

const struct verb profile_verb = {
	.name = "profile",
	.usage = "[standard|locked]",
	.summary = "Prints every system call and the answer a cell gets to it.",
	.text = "An answer is allow, an error, or the name of a rule over the call's arguments.\n",
	.run = profile_main,
};
