import FaultShim
import SharedBreaker
import TestSupport

/// Cuts the power after every disk operation of a story, and checks what is found after the boot.
final class PowerCut {
  private let story: Story
  private let directory: String
  private let clock = HandClock()
  private(set) var cuts = 0
  private(set) var boots = 0
  private(set) var complaints: [String] = []

  /// The contents of the store before the first step of the story and after each step.
  private var contents: [String] = []

  init(_ story: Story, in directory: String) {
    self.story = story
    self.directory = directory
  }

  private var path: String { directory + "/state/breakers.db" }

  func run(seeds: Int, stride: Int) throws {
    if let prepare = story.prepare {
      let play = try Play(in: directory, clock: clock)
      try play.store.connect()
      try prepare(play)
      contents = [try Contents.read(path)]
      play.store.close()
    } else {
      contents = [Contents.nothing]
    }
    var disk = try DiskImage(ofStoreAt: path)
    try record()
    var marks = 0
    var acknowledged = 0
    let events = DiskEvent.all()
    for index in 0...events.count {
      if index > 0 {
        if case .mark(let step) = events[index - 1] {
          marks = step
          if story.steps[step - 1].isLasting { acknowledged = step }
        }
        disk.apply(events[index - 1])
      }
      if index % stride != 0, index != events.count { continue }
      cuts += 1
      let possible = contents[acknowledged...min(marks + 1, story.steps.count)]
      for seed in 0..<seeds {
        let luck: DiskImage.Luck = seed == 0 ? .nothing : seed == 1 ? .everything : .something
        var random = SeededRandom(seed: UInt64(index * 1_000 + seed))
        try disk.write(asStoreAt: path, luck, &random)
        boots += 1
        do {
          try boot(among: possible, isNew: acknowledged == 0)
        } catch {
          complaints.append("cut after \(index) of \(events.count), seed \(seed): \(error)")
        }
      }
    }
  }

  /// Plays the story once, and records it.
  private func record() throws {
    let play = try Play(in: directory, clock: clock)
    unsafe trace_begin(path)
    for (index, step) in story.steps.enumerated() {
      try step.act(play)
      trace_set_mark(Int64(index) + 1)
      contents.append(try Contents.read(path))
    }
    trace_end()
    play.permit = nil
    play.store.close()
    Files.removeAll(directory + "/state")
  }

  private func boot(among possible: ArraySlice<String>, isNew: Bool) throws {
    clock.reboot()
    let play = try Play(in: directory, clock: clock)
    defer { play.store.close() }
    // A store in which nothing was acknowledged may be gone.
    try play.store.connect()
    let found = try Contents.read(path)
    guard possible.contains(found) || isNew && found.isEmpty else {
      throw Wrong("found is none of \(possible.count) that may be:\n\(found)\n\(possible)")
    }
    let complaints = try Contents.complaints(about: path)
    if !complaints.isEmpty { throw Wrong("\(complaints)") }
    // The store can be used like any other.
    try play.store.breaker("later").trip()
    guard try play.store.snapshot(of: "later")?.state == .open else { throw Wrong("it was lost") }
  }
}
