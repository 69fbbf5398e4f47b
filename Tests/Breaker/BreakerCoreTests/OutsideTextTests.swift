import Testing

@testable import BreakerCore

@Suite struct OutsideTextTests {
  @Test(arguments: [
    "a", "payments/eu-1", "with space", "größe", "日本", "👩‍👩‍👧", "-", "*", "';--",
    String(repeating: "x", count: 255),
    String(repeating: "é", count: 127) + "x",
  ])
  func `a name may be any short printable text`(name: String) {
    #expect(OutsideText.complaint(aboutName: name) == nil)
  }

  @Test(arguments: [
    ("", "it is empty"),
    (String(repeating: "x", count: 256), "it has 256 bytes, and 255 is the limit"),
    (String(repeating: "é", count: 128), "it has 256 bytes, and 255 is the limit"),
    ("a\nb", "it contains a control character"),
    ("a\u{0}", "it contains a control character"),
    ("\u{1B}[31m", "it contains a control character"),
    ("a\u{7F}", "it contains a control character"),
    ("a\u{85}", "it contains a control character"),
    ("a\u{2028}", "it contains a control character"),
    ("a\u{2029}", "it contains a control character"),
    ("a\r\n", "it contains a control character"),
  ])
  func `a name that is empty, too long or not printable is refused`(name: String, words: String) {
    #expect(OutsideText.complaint(aboutName: name) == words)
  }

  @Test(arguments: [
    "", "plain", "größe", "結果", "e\u{301}", "a b", "\u{a0}", "\\u{1b}", "\u{fffd}", "\u{600}1",
    // Joiners and selectors are part of the spelling of these.
    "👩‍👩‍👧", "❤️", "می‌شود", "क्‍ष",
  ])
  func `text that displays as it is written stays unchanged`(text: String) {
    #expect(OutsideText.visible(text) == text)
  }

  @Test(arguments: [
    // Control characters, including eight-bit ones, and line separators.
    ("a\nb\tc", #"a\u{a}b\u{9}c"#), ("\u{0}\u{7f}", #"\u{0}\u{7f}"#), ("\r\n", #"\u{d}\u{a}"#),
    ("\u{1b}[2J", #"\u{1b}[2J"#), ("\u{9b}1m\u{85}", #"\u{9b}1m\u{85}"#),
    ("\u{2028}\u{2029}", #"\u{2028}\u{2029}"#),
    // Characters that change the writing direction.
    ("a\u{202e}b\u{202c}", #"a\u{202e}b\u{202c}"#),
    ("\u{2066}\u{2067}\u{2068}\u{2069}", #"\u{2066}\u{2067}\u{2068}\u{2069}"#),
    ("\u{200e}\u{200f}\u{61c}", #"\u{200e}\u{200f}\u{61c}"#),
    // Invisible characters.
    ("pay\u{200b}", #"pay\u{200b}"#), ("\u{feff}\u{ad}\u{2060}", #"\u{feff}\u{ad}\u{2060}"#),
    ("\u{180e}\u{34f}\u{3164}\u{115f}", #"\u{180e}\u{34f}\u{3164}\u{115f}"#),
    ("\u{fff9}\u{206a}", #"\u{fff9}\u{206a}"#), ("\u{e0041}\u{e0100}", #"\u{e0041}\u{e0100}"#),
    // Joiners and selectors where they join and select nothing.
    ("pay\u{200d}ments", #"pay\u{200d}ments"#), ("pay\u{200c}", #"pay\u{200c}"#),
    ("\u{200d}", #"\u{200d}"#), ("a\u{fe0f}", #"a\u{fe0f}"#),
    ("é\u{200d}\u{200d}", "é\u{200d}\\u{200d}"), ("é\u{200b}\u{200d}", #"é\u{200b}\u{200d}"#),
  ])
  func `characters that control, reorder or hide text are made visible`(
    text: String, visible: String
  ) {
    #expect(OutsideText.visible(text) == visible)
  }

  @Test(arguments: [
    ("abcdef", 6, "abcdef"), ("abcdef", 5, "abcde"), ("abcdef", 0, ""), ("", 0, ""),
    ("aéé", 3, "aé"), ("aéé", 4, "aé"), ("aéé", 5, "aéé"), ("é", 1, ""), ("日本", 5, "日"),
    ("e\u{301}x", 2, ""), ("xe\u{301}", 3, "x"), ("x👩‍👩‍👧", 12, "x"),
  ])
  func `text is cut between characters`(text: String, longest: Int, expected: String) {
    #expect(OutsideText.cut(text, to: longest) == expected)
  }

  @Test(arguments: ["x", "é", "日", "👩‍👩‍👧"])
  func `an error text keeps as many whole characters as fit into 1 KiB`(character: String) {
    let cut = OutsideText.cut(String(repeating: character, count: 2_000))
    #expect(cut.count == 1_024 / character.utf8.count)
    #expect(cut.allSatisfy { String($0) == character })
  }

  @Test(arguments: [
    ("max-failures", "max-failures"), ("", ""),
    ("a\r\nb\u{1B}[2J\u{2028}", #"a\u{d}\u{a}b\u{1b}[2J\u{2028}"#),
    (String(repeating: "x", count: 80), String(repeating: "x", count: 80)),
    (String(repeating: "x", count: 81), String(repeating: "x", count: 80) + "…"),
    ("e" + String(repeating: "\u{301}", count: 50), "…"),
  ])
  func `a message quotes text on a single line and at most 80 bytes of it`(
    text: String, expected: String
  ) {
    #expect(OutsideText.quoted(text) == expected)
  }

  @Test func `a name is printed without quotes unless it is nothing but space`() {
    #expect(OutsideText.name("pay\u{202e}") == #"pay\u{202e}"#)
    #expect(OutsideText.name("  ") == "'  '")
  }
}
