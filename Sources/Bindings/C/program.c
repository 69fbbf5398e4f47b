#include <sharedbreaker.h>
#include <stdio.h>

static int charge(int order) { return order != 13; }

int main(void) {
  sb_store *store;
  sb_breaker *payments;
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_details details = SB_DETAILS_INIT;

  if (sb_open(NULL, 0, NULL, &store) != SB_OK ||
      sb_breaker_open(store, "payments", SB_NUL, "max-failures=3 open-for=30s", SB_NUL,
                      SB_STORE_DEFAULT, &payments) != SB_OK) {
    fprintf(stderr, "%s\n", sb_error_text());
    return 1;
  }
  switch (sb_enter(payments, &permit, &rejection, 0)) {
  case SB_OK:
    if (charge(1)) {
      sb_leave(payments, &permit, SB_SUCCESS, NULL, 0);
    } else {
      details.error = "the bank said no";
      sb_leave(payments, &permit, SB_FAILURE, &details, 0);
    }
    break;
  case SB_REJECTED:
    printf("try again in %lld ms\n", (long long)(rejection.retry_after_ns / 1000000));
    break;
  default:
    fprintf(stderr, "%s\n", sb_error_text());
  }
  sb_breaker_free(payments);
  sb_close(store);
  return 0;
}
