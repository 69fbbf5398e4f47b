import Testing

@testable import BreakerCore

@Suite struct OutsideTextTests {
  @Test(arguments: [
    "a", "payments/eu-1", "with space", "größe", "日本", "👩‍👩‍👧", "-", "*", "';--",
    String(repeating: "x", count: 255),
    String(repeating: "é", count: 127) + "x",
  ])
  func `a name may be any short text`(name: String) {
    #expect(OutsideText.complaint(aboutName: name) == nil)
  }

  @Test(arguments: [
    ("", "it is empty"),
    (String(repeating: "x", count: 256), "it has 256 bytes, and at most 255 fit"),
    (String(repeating: "é", count: 128), "it has 256 bytes, and at most 255 fit"),
    ("a\nb", "it has a control character in it"),
    ("a\u{0}", "it has a control character in it"),
    ("\u{1B}[31m", "it has a control character in it"),
    ("a\u{7F}", "it has a control character in it"),
    ("a\u{85}", "it has a control character in it"),
    ("a\u{2028}", "it has a control character in it"),
    ("a\u{2029}", "it has a control character in it"),
    ("a\r\n", "it has a control character in it"),
  ])
  func `a name that is empty, too long or not printable is refused`(name: String, words: String) {
    #expect(OutsideText.complaint(aboutName: name) == words)
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
  func `a message repeats text on its one line and not too much of it`(
    text: String, expected: String
  ) {
    #expect(OutsideText.quoted(text) == expected)
  }
}
