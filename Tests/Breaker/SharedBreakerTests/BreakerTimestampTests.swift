import SharedBreaker
import Testing

@Suite struct BreakerTimestampTests {
  @Test(
    arguments: [
      (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
      (951_827_696_007, "2000-02-29T12:34:56.007Z"),
      (1_790_000_600_045, "2026-09-21T14:23:20.045Z"),
      (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"), (.min, "0001-01-01T00:00:00.000Z"),
      (.max, "9999-12-31T23:59:59.999Z"),
    ] as [(Int64, String)])
  func `a time in text follows RFC 3339`(milliseconds: Int64, text: String) {
    #expect(BreakerTimestamp(millisecondsSince1970: milliseconds).description == text)
  }
}
