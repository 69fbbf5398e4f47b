extension BreakerTimestamp: LosslessStringConvertible {
  /// Reads a time as it is printed, `2026-11-21T04:44:45.123Z`; nil for any other text.
  public init?(_ description: String) {
    let bytes = Array(description.utf8)
    guard bytes.count == 24 else { return nil }
    func number(_ range: Range<Int>) -> Int64? {
      var number: Int64 = 0
      for byte in bytes[range] {
        guard (0x30...0x39).contains(byte) else { return nil }
        number = number * 10 + Int64(byte - 0x30)
      }
      return number
    }
    guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
      let hour = number(11..<13), let minute = number(14..<16), let second = number(17..<19),
      let milliseconds = number(20..<23), (1...12).contains(month)
    else { return nil }
    // Years are counted from 1 March, so that leap days come last.
    let shifted = month > 2 ? year : year - 1
    let daysOfYears = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400
    let daysOfMonths = (153 * ((month + 9) % 12) + 2) / 5
    let days = daysOfYears + daysOfMonths + day - 1 - 719_468
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    self.init(millisecondsSince1970: seconds * 1_000 + milliseconds)
    // Refuses days and hours that do not exist, and other separators.
    guard self.description == description else { return nil }
  }
}
