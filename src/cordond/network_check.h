/* network_check.h - the operator's settings for the network, looked at before anything is started.
 */
#pragma once

/* cordond --check-network PRESETS: of network_default, and the node's policy at standard input
 * (empty: none). Says what is wrong on standard error. Returns the exit code. */
int network_check(const char *presets);
