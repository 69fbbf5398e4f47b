internal import Glibc

/// Changes the file of the shared counters directly, without any of the library's code.
package struct CounterWords {
  private let path: String

  package init(ofStore store: String) { path = store + "-counters" }

  private static let bytesOfHeader = 65_536
  private static let bytesOfBreaker = 128
  private static let bytesOfWord = 8
  private static let bytesOfMarks = 128
  private static let breakersOfSegment = 1_024

  /// The number of words of a breaker; the last ones are its marks.
  package static let wordsOfBreaker = 32

  /// Overwrites the successes of a breaker of the first segment.
  package func setSuccesses(ofBreaker id: Int, to value: UInt64) throws {
    try write([value], at: Self.bytesOfHeader + id * Self.bytesOfBreaker)
  }

  /// Overwrites a word of a breaker of the first segment.
  package func set(word: Int, ofBreaker id: Int, to value: UInt64) throws {
    let counters = Self.bytesOfBreaker / Self.bytesOfWord
    guard word >= counters else {
      let offset = id * Self.bytesOfBreaker + word * Self.bytesOfWord
      return try write([value], at: Self.bytesOfHeader + offset)
    }
    let marks = Self.bytesOfHeader + Self.breakersOfSegment * Self.bytesOfBreaker
    let offset = id * Self.bytesOfMarks + (word - counters) * Self.bytesOfWord
    try write([value], at: marks + offset)
  }

  /// Overwrites a word of the header.
  package func setHeader(word: Int, to value: UInt64) throws {
    try write([value], at: word * Self.bytesOfWord)
  }

  private func write(_ words: [UInt64], at offset: Int) throws {
    let descriptor = unsafe open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    guard unsafe pwrite(descriptor, words, words.count * Self.bytesOfWord, offset) > 0 else {
      throw SupportError("pwrite \(path)", errno)
    }
  }
}
