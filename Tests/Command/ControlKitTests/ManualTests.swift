import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// Manual pages, which come from the same table as the help.
struct ManualTests {
  private static let pages = CommandSpec.all.map(\.name) + HelpTopic.all.map(\.name)

  private func page(_ name: String?) -> String {
    Answer.of(["help", "--man"] + (name.map { [$0] } ?? [])).output
  }

  /// The text of a page as groff formats it, and all warnings of groff.
  private func formatted(_ page: String) -> (text: String, warnings: String) {
    let bench = CommandBench()
    let files = ["page", "text", "warnings"].map { "\(bench.folder)/\($0)" }
    Golden.write(page, to: files[0])
    let line = "groff -man -ww -Tascii -P-cbou '\(files[0])' > '\(files[1])' 2> '\(files[2])'"
    #expect(Child.shell(line) == 0)
    return (Golden.read(files[1]) ?? "", Golden.read(files[2]) ?? "")
  }

  @Test(arguments: pages)
  func `the manual page of every command and topic matches its snapshot`(name: String) {
    Golden.expect(page(name), "man-\(name).roff")
  }

  @Test func `the first manual page matches its snapshot`() {
    Golden.expect(page(nil), "man.roff")
  }

  @Test(.timeLimit(.minutes(60)), arguments: [nil] + pages.map { $0 })
  func `a manual page gives groff nothing to warn about`(name: String?) {
    let (text, warnings) = formatted(page(name))
    #expect(warnings.isEmpty)
    #expect(text.contains("NAME\n       cbctl\(name.map { "-\($0)" } ?? "") - "))
  }

  @Test func `the manual says what help says, word for word`() {
    let (text, _) = formatted(page("run"))
    let words = text.split { $0 == " " || $0 == "\n" }.joined(separator: " ")
    for spec in CommandSpec.run.allOptions {
      #expect(text.contains("--\(spec.name)"))
      let hasSummary = words.contains(spec.summary)
      #expect(hasSummary, "\(spec.name)")
    }
    for paragraph in CommandSpec.run.details {
      let hasParagraph = words.contains(paragraph)
      #expect(hasParagraph, "\(paragraph)")
    }
    #expect(text.contains("cbctl run payments -- curl -fsS https://pay.example/charge\n"))
  }
}
