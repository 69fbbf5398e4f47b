/*
 * Runs a command behind a circuit breaker that all processes of the host share.
 *
 *     ./guard NAME COMMAND [WORD...]
 *
 * If the command has failed three times in a row, in whichever process, it is not run again for ten
 * seconds: the program ends with 75, as cbctl does. SHARED_BREAKER_STORE names the store.
 */
#define _POSIX_C_SOURCE 200809L
#include <sharedbreaker.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what) {
  fprintf(stderr, "guard: %s: %s\n", what, sb_error_text());
  return 69;
}

/* Returns the exit code of the command; 128 or more if a signal has ended it. */
static int run(char **command) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return 126;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int call(sb_breaker *breaker, char **command) {
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_details details = SB_DETAILS_INIT;
  char error[32];
  char *text;
  int code = sb_enter(breaker, &permit, &rejection, 0);
  if (code == SB_REJECTED) {
    if (sb_rejection_text(breaker, &rejection, &text, NULL) == SB_OK) {
      fprintf(stderr, "guard: %s\n", text);
      sb_free(text);
    }
    return 75;
  }
  if (code != SB_OK) return fail("the breaker did not answer");
  code = run(command);
  snprintf(error, sizeof error, "exit code %d", code);
  details.error = error;
  sb_leave(breaker, &permit, code == 0 ? SB_SUCCESS : SB_FAILURE, &details, 0);
  return code;
}

int main(int count, char **arguments) {
  sb_store *store;
  sb_breaker *breaker;
  int code;
  if (count < 3) {
    fprintf(stderr, "usage: %s NAME COMMAND [WORD...]\n", arguments[0]);
    return 64;
  }
  if (sb_open(NULL, 0, NULL, &store) != SB_OK) return fail("no store");
  if (sb_breaker_open(store, arguments[1], SB_NUL, "max-failures=3 open-for=10s", SB_NUL,
                      SB_STORE_DEFAULT, &breaker) != SB_OK)
    return fail("no breaker");
  code = call(breaker, arguments + 2);
  sb_breaker_free(breaker);
  sb_close(store);
  return code;
}
