/* network_check.h - checks the operator's network settings before the server is started. */
#pragma once

/* cordond --check-network PRESETS PRESETS: checks network_default, build_network ("": not set) and
 * the node's policy, which is standard input (empty: none). Prints the error to standard error.
 * Returns the exit code. */
int network_check(const char *presets, const char *of_builds);
