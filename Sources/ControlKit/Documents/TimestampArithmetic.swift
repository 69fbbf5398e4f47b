import SharedBreaker

extension BreakerTimestamp {
  /// The time that lies `duration` earlier.
  func earlier(by duration: Duration) -> BreakerTimestamp {
    let (result, overflow) = millisecondsSince1970.subtractingReportingOverflow(
      SpokenDuration.milliseconds(duration))
    return BreakerTimestamp(millisecondsSince1970: overflow ? .min : result)
  }

  /// The time that lies `duration` later.
  func later(by duration: Duration) -> BreakerTimestamp {
    let (result, overflow) = millisecondsSince1970.addingReportingOverflow(
      SpokenDuration.milliseconds(duration))
    return BreakerTimestamp(millisecondsSince1970: overflow ? .max : result)
  }
}
