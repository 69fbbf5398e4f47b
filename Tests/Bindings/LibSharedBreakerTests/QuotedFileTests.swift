import TestSupport
import Testing

/// The files for other languages, which their guides quote whole.
@Suite struct QuotedFileTests {
  @Test(arguments: [
    ("UsingItFromC", "c", "C/program.c"),
    ("UsingItFromGo", "go", "Go/sharedbreaker/sharedbreaker.go"),
    ("UsingItFromGo", "go", "Go/main.go"),
    ("UsingItFromGo", "go", "Go/limits/main.go"),
    ("UsingItFromPHP", "php", "PHP/shared_breaker.php"),
    ("UsingItFromPHP", "php", "PHP/program.php"),
    ("UsingItFromPHP", "php", "PHP/limits.php"),
    ("UsingItFromRuby", "ruby", "Ruby/shared_breaker.rb"),
    ("UsingItFromRuby", "ruby", "Ruby/program.rb"),
    ("UsingItFromRuby", "ruby", "Ruby/limits.rb"),
  ])
  func `a guide shows the file as it is`(guide: String, language: String, file: String) throws {
    let root = #filePath.split(separator: "/").dropLast(4).map { "/\($0)" }.joined()
    let guides = "\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc"
    let guideText = String(decoding: try Files.read("\(guides)/\(guide).md"), as: UTF8.self)
    let text = String(decoding: try Files.read("\(root)/Sources/Bindings/\(file)"), as: UTF8.self)
    #expect(guideText.contains("\n```\(language)\n\(text)```\n"), "copy \(file) into the guide")
  }
}
