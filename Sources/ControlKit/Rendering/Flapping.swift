import SharedBreaker

/// Whether a breaker flaps: its resource comes and goes, so that it is well only between outages.
///
/// This is the one definition, from the instants at which outages began. A breaker that stays away is
/// no such breaker, however often its probes fail.
struct Flapping {
  /// How many outages within the span make a breaker one that flaps.
  static let outages = 5

  static let span = Duration.seconds(3_600)

  /// How many outages have begun within the span.
  var count: Int

  init(outagesAt instants: some Sequence<BreakerTimestamp>, now: BreakerTimestamp) {
    let start = now.earlier(by: Self.span)
    count = instants.count { $0 > start && $0 <= now }
  }

  /// Reads the history of one breaker.
  init(history: [HistoryEntry], now: BreakerTimestamp) {
    self.init(outagesAt: history.lazy.filter(\.beginsOutage).map(\.at), now: now)
  }

  var isSo: Bool { count >= Self.outages }
}
