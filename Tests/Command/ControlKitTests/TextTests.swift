import BreakerDocuments
import SharedBreaker
import Testing

@testable import ControlKit

struct TextTests {
  @Test(arguments: [
    ("plain", "plain"), ("\u{1b}[2J", "\\u{1b}[2J"), ("größe 結果", "größe 結果"),
    ("pay\u{200b}ments", "pay\\u{200b}ments"),
  ])
  func `text that would mislead a reader is shown escaped`(text: String, visible: String) {
    #expect(VisibleText.bare(text) == visible)
  }

  @Test func `quoted text is cut if it would drown the message`() {
    #expect(VisibleText.quoted("ab") == "'ab'")
    let long = String(repeating: "x", count: 81)
    #expect(VisibleText.quoted(long) == "'\(long.dropLast())…'")
  }

  @Test(arguments: [
    (JSONValue.string("a\"b\\c\u{1}\u{1b}\n\r\t/"), #""a\"b\\c\u0001\u001b\n\r\t/""#),
    (.string("\u{7f}\u{9b}\u{2028}é😀"), #""\u007f\u009b\u2028é😀""#),
    (.string("\u{200b}\u{e0041}\u{1d173}"), #""\u200b\udb40\udc41\ud834\udd73""#),
    (.array([.null, .bool(true), .bool(false), .integer(.min)]), "[null,true,false,\(Int64.min)]"),
    (
      .array([.number(0.375), .number(1), .number(.nan), .number(.infinity)]), "[0.375,1,null,null]"
    ),
    (.object([.init("b", .object([])), .init("a\"", .array([]))]), #"{"b":{},"a\"":[]}"#),
  ])
  func `JSON is valid whatever text it holds`(value: JSONValue, text: String) {
    #expect(value.text == text)
  }

  @Test(
    arguments: [
      (Duration.zero, 0), (.nanoseconds(1), 1), (.microseconds(1_000), 1),
      (.microseconds(1_001), 2),
      (.seconds(90), 90_000), (.seconds(-5), 0), (.seconds(Int64.max), Int64.max),
    ] as [(Duration, Int64)])
  func `milliseconds are rounded up`(duration: Duration, milliseconds: Int64) {
    #expect(SpokenDuration.milliseconds(duration) == milliseconds)
  }

  @Test(arguments: [
    (Duration.zero, "0s"), (.nanoseconds(1), "1ms"), (.milliseconds(999), "999ms"),
    (.milliseconds(1_001), "2s"), (.seconds(59), "59s"), (.seconds(60), "1m"),
    (.seconds(61), "1m 1s"), (.seconds(3_600), "1h"), (.seconds(3_601), "1h 1m"),
    (.milliseconds(4_976), "5s"),
    (.seconds(86_399), "1d"), (.seconds(86_400), "1d"), (.seconds(90_000), "1d 1h"),
    (.seconds(-1), "0s"),
  ])
  func `a duration is given in at most two units and rounded up`(duration: Duration, text: String) {
    #expect(SpokenDuration.format(duration) == text)
  }

  @Test(
    arguments: [
      ("statsu", "status"), ("stat", "status"), ("frce", "force"), ("polcy", "policy"),
      ("FORCE", "force"), ("x", nil), ("frobnicate", nil), ("", nil),
    ] as [(String, String?)])
  func `a suggestion is a near word or none`(word: String, meant: String?) {
    #expect(Suggestion.nearest(to: word, among: CommandSpec.all.map(\.name)) == meant)
  }

  @Test(arguments: [
    ("*", "", true), ("*", "anything", true), ("a*", "abc", true), ("a*c", "abcbc", true),
    ("a*c", "abcb", false), ("?", "é", true), ("??", "é", false), ("[a-c]x", "bx", true),
    ("[!a-c]x", "bx", false), ("[!a-c]x", "dx", true), ("[a", "[a", true), ("a\\*", "a*", true),
    ("a\\*", "ab", false), ("plain", "plain", true), ("plain", "plainer", false),
    ("**a**", "ba", true),
    ("[]]", "]", true), ("[-a]", "-", true),
  ])
  func `a pattern matches whole names`(pattern: String, name: String, matches: Bool) {
    #expect(Glob(pattern).matches(name) == matches)
  }

  @Test func `a pattern of many stars is matched at once`() {
    let pattern = String(repeating: "*a", count: 40) + "b"
    #expect(!Glob(pattern).matches(String(repeating: "a", count: 250)))
  }

  @Test(arguments: [("abc", 3), ("größe", 5), ("結果", 4), ("😀", 2), ("e\u{301}", 1), ("", 0)])
  func `the width of a text is what a terminal needs for it`(text: String, width: Int) {
    #expect(TextWidth.of(text) == width)
  }

  @Test func `text after a beginning is indented, or has lines of its own if that is too narrow`() {
    let text = "what a repair would do"
    #expect(TextWrap.hanging(text, after: "note  ", width: 28) == ["note  what a repair would do"])
    #expect(
      TextWrap.hanging(text, after: "note  ", width: 27)
        == ["note  what a repair would", "      do"])
    #expect(
      TextWrap.hanging(text, after: "a long beginning  ", width: 20)
        == ["a long beginning", "    what a repair", "    would do"])
    #expect(
      TextWrap.hanging(text, after: "a longer beginning than that  ", width: 20)
        == ["a longer beginning", "than that", "    what a repair", "    would do"])
  }
}
