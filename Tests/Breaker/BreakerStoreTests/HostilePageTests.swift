import BreakerCore
import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// The page of a limit, which every user of the store may write.
@Suite struct HostilePageTests {
  @Test func `garbage that another process writes over the whole page crashes no caller`() throws {
    let stage = try SlotStage()
    let witness = try SlotWitness(path: stage.directory.file("witness"))
    var random = SeededRandom(seed: .random(in: 0 ... .max))
    let puppets = try (0..<3).map { _ in try SlotPuppet(stage) }
    for (index, puppet) in puppets.enumerated() {
      try puppet.send("slot-storm 2 3 \(witness.path) \(index) \(random.next())")
    }
    while witness.begun <= 100 { usleep(1_000) }
    let page = try PageFile(stage)
    for round in 0..<rounds(200) {
      // Ones and zeros alone, small numbers, and anything.
      let kind = round % 4
      page.overwrite { _ in
        switch kind {
        case 0: 0
        case 1: .max
        case 2: random.next() % 8
        default: random.next()
        }
      }
      usleep(UInt32(random.number(0...2_000)))
    }
    page.overwrite { _ in 0 }
    for index in puppets.indices { witness.stop(index) }
    for puppet in puppets { #expect(try puppet.answer().hasPrefix("begun ")) }
  }

  @Test func `single words that another process writes crash no caller`() throws {
    let stage = try SlotStage()
    let witness = try SlotWitness(path: stage.directory.file("witness"))
    var random = SeededRandom(seed: .random(in: 0 ... .max))
    let puppets = try (0..<3).map { _ in try SlotPuppet(stage) }
    for (index, puppet) in puppets.enumerated() {
      try puppet.send("slot-storm 2 3 \(witness.path) \(index) \(random.next())")
    }
    while witness.begun <= 100 { usleep(1_000) }
    let page = try PageFile(stage)
    for _ in 0..<rounds(20_000) {
      // The first lines of a part are those in use; the header is the end of the last one.
      let part = random.pick(PageFile.parts)
      page.write(
        random.pick([0, 1, random.next() % 64, random.next(), .max]),
        at: part + random.number(0...255) * 8)
    }
    page.overwrite { _ in 0 }
    for index in puppets.indices { witness.stop(index) }
    for puppet in puppets { #expect(try puppet.answer().hasPrefix("begun ")) }
  }

  @Test func `a thread under a limit keeps no lock for which the kernel follows pointers`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), places: 8, revision: 1)
    let isKept = Guarded(true)
    let threads = Threads()
    threads.start {
      guard let block = try? stage.block(), let held = block.begun(terms: terms) else { return }
      _ = block.enter(CallClaim(), terms, wait: SlotWait(atMost: .milliseconds(1)))
      isKept.withLock { $0 = Threads.currentKeepsRobustLocks }
      block.end(held)
    }
    threads.join()
    #expect(!isKept.withLock { $0 })
  }

  @Test func `no source shares a lock of the C library between processes`() throws {
    let root = #filePath.split(separator: "/").dropLast(4).map { "/\($0)" }.joined() + "/Sources"
    let sources = Self.files(below: root)
    #expect(sources.contains { $0.hasSuffix("/CHost/slots.c") })
    for source in sources {
      let text = String(decoding: try Files.read(source), as: UTF8.self)
      for word in ["PROCESS_SHARED", "_setpshared", "_setrobust"] {
        #expect(!text.contains(word), "\(source): \(word)")
      }
    }
  }

  /// The source files in a folder and in those below it.
  private static func files(below folder: String) -> [String] {
    Files.names(in: folder).filter { !$0.hasPrefix(".") }.flatMap { name in
      let path = "\(folder)/\(name)"
      let isSource = [".swift", ".c", ".h"].contains { name.hasSuffix($0) }
      return isSource ? [path] : files(below: path)
    }
  }
}

/// The file of a page, as a program writes it that is not this library.
@safe private final class PageFile {
  private let words: UnsafeMutableBufferPointer<UInt64>

  /// Where the parts of the head and of the first block begin that have words.
  static let parts: [Int] = {
    let block = SlotFile.offset(ofBlock: 0)
    return [
      SlotFile.offsetOfOwners, SlotFile.offsetOfBells, SlotFile.offsetOfOwnerLines,
      SlotFile.offsetOfBlocks, block + SlotFile.offsetOfSlots, block + SlotFile.offsetOfWaiters,
      block + SlotFile.bytesOfBlock - 256 * 8,
    ]
  }()

  init(_ stage: SlotStage) throws {
    let descriptor = unsafe open(stage.path + SlotFile.kind.suffix, O_RDWR | O_CLOEXEC)
    defer { close(descriptor) }
    var status = stat()
    guard descriptor >= 0, unsafe fstat(descriptor, &status) == 0 else {
      throw SupportError("open", errno)
    }
    let length = Int(status.st_size)
    guard
      let mapping = unsafe mmap(
        nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
      unsafe mapping != MAP_FAILED
    else { throw SupportError("mmap", errno) }
    unsafe words = UnsafeMutableBufferPointer(
      start: mapping.assumingMemoryBound(to: UInt64.self), count: length / 8)
  }

  deinit { unsafe munmap(words.baseAddress, words.count * 8) }

  func write(_ word: UInt64, at offset: Int) { unsafe words[offset / 8] = word }

  func overwrite(_ word: (_ index: Int) -> UInt64) {
    for index in unsafe 0..<words.count { unsafe words[index] = word(index) }
  }
}
