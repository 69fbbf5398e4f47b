import Testing

@testable import ControlKit

struct HelpTests {
  @Test func `the overview of help matches its snapshot`() {
    Golden.expect(Answer.of("--help").output, "help.txt")
  }

  @Test(arguments: CommandSpec.all.map(\.name))
  func `the help page of every command matches its snapshot`(name: String) {
    Golden.expect(Answer.of(name, "--help").output, "help-\(name).txt")
  }

  @Test(arguments: HelpTopic.all.map(\.name))
  func `the help page of every topic matches its snapshot`(name: String) {
    Golden.expect(Answer.of("help", name).output, "topic-\(name).txt")
  }

  private static let pages =
    [["--help"]] + CommandSpec.all.map { [$0.name, "--help"] }
    + HelpTopic.all.map { ["help", $0.name] }

  @Test(arguments: pages)
  func `no help page has a line that a terminal of 80 columns would break`(words: [String]) {
    let page = Answer.of(words).output
    #expect(!page.isEmpty)
    for line in page.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
  }

  @Test(arguments: CommandSpec.all.map(\.name))
  func `the help page of a command breaks its text only between words`(name: String) throws {
    let spec = try #require(CommandSpec.named(name))
    let words = HelpPage.of(spec).split { $0 == " " || $0 == "\n" }.joined(separator: " ")
    let summaries = spec.arguments.map(\.summary) + spec.allOptions.map(\.summary)
    for text in spec.details + summaries + spec.examples.map(\.purpose) {
      #expect(words.contains(text), "\(text)")
    }
    for example in spec.examples { #expect(HelpPage.of(spec).contains("\n  \(example.line)\n")) }
  }

  @Test func `help can stand before or after the command and beside mistakes`() {
    let page = Answer.of("force", "--help")
    #expect(page == Answer.of("--help", "force"))
    #expect(page == Answer.of("help", "force"))
    #expect(page == Answer.of("force", "x", "nonsense", "--for", "-h"))
    #expect(page.code == 0)
    #expect(page.errors.isEmpty)
  }

  @Test func `an option for help after the dashes belongs to the other command`() throws {
    let words = ["run", "x", "--", "ls", "--help"]
    let request = try ArgumentParser.parse(words.map { Array($0.utf8) })
    guard case .command(let parsed) = request else {
      Issue.record("it is help")
      return
    }
    #expect(parsed.commandLine.map { String(decoding: $0, as: UTF8.self) } == ["ls", "--help"])
  }

  @Test func `an unknown topic is a usage error with a suggestion`() {
    let answer = Answer.of("help", "exit-code")
    #expect(answer.code == 64)
    #expect(answer.errors.contains("did you mean 'exit-codes'?"))
  }

  @Test func `the version is printed after the name of the command`() {
    let answer = Answer.of("--version")
    #expect(answer.output.hasPrefix("cbctl \(ControlKit.version)"))
    #expect(answer.code == 0)
  }

  @Test func `every topic and every command has a name of its own`() {
    let names = CommandSpec.all.map(\.name) + HelpTopic.all.map(\.name)
    #expect(Set(names).count == names.count)
  }

  @Test func `every option of a command has a name of its own`() {
    for spec in CommandSpec.all {
      let names = (GlobalOptions.specs + spec.allOptions).map(\.name)
      #expect(Set(names).count == names.count, "\(spec.name)")
    }
  }
}
