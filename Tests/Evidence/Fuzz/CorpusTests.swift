import TestSupport
import Testing

/// Runs every input that the fuzzer has kept because it once reached new code.
///
/// Targets run one after the other, because those that need a store use the same path.
@Suite(.serialized) struct CorpusTests {
  @Test(.timeLimit(.minutes(60)), arguments: FuzzTarget.allCases)
  func `bytes that no program of ours has written do no harm`(target: FuzzTarget) throws {
    let corpus = try Files.all(in: Self.folder(of: target))
    try #require(!corpus.isEmpty)
    for path in corpus { target.run(try Files.read(path)) }
  }

  private static func folder(of target: FuzzTarget) -> String {
    let here = #filePath.split(separator: "/").dropLast().joined(separator: "/")
    return "/\(here)/Corpus/\(target.rawValue)"
  }
}
