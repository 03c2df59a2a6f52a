//! A cell's process, seen from both ends of its pipes.
//!
//! Memory locking belongs to a process, so each cell has one of its own. It lives as long as the bench, and waits on its
//! standard input between blocks; when that ends, because the bench closed it or died, it closes its run file and goes.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cause::{Cost, Explanation, KeptWindow, LoopThread, SpikeFacts};
use crate::probe::description::{Beside, Body, Parts};
use crate::probe::{BlockPlan, Interruptions, Run, RunError, Witness};
use crate::record::{Progress, Recorder};
use crate::thread::Grant;

/// What the bench tells a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Run one block.
    Block {
        /// Its number.
        index: u32,
        /// Its length.
        releases: u64,
    },
    /// Why the cycle was late that was asked about last.
    Explained(Explanation),
    /// What ran around it.
    Window(Option<KeptWindow>),
}

/// What a cell tells the bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is prepared; this is what it was granted.
    Ready(Vec<Grant>),
    /// This thread is the loop, from now on.
    Loop(LoopThread),
    /// A cycle was late: why?
    Late(SpikeFacts),
    /// What ran around the cycle asked about last? It is to be kept.
    Around,
    /// A block is over; the run so far.
    Done(Progress),
    /// Its run file is closed.
    Closed,
    /// It cannot go on.
    Failed(String),
}

/// The cell's end of the pipes.
pub struct Served {
    /// The run that the blocks belong to.
    pub run: Run,
    /// What the loop's thread does, what is made of its samples, and what goes on beside it.
    pub parts: Parts,
    /// The load's name, for the run file.
    pub load: String,
    /// Signals, and the end of the orders.
    pub interruptions: Arc<Interruptions>,
    /// Whether the bench is asked why cycles were late.
    pub causes: bool,
}

impl Served {
    /// Runs blocks as ordered until `orders` end, then closes the run file.
    ///
    /// # Errors
    /// [`RunError`], which has been told to the bench as well.
    pub fn serve(
        mut self,
        orders: impl io::Read + Send + 'static,
        answers: impl Write + 'static,
    ) -> Result<(), RunError> {
        let answers = Answers::to(answers);
        let (orders, explanations, windows) = match listen(orders, &self.interruptions) {
            Ok(heard) => heard,
            Err(why) => {
                let why = RunError::Thread(why);
                answers.tell(&Answer::Failed(why.to_string()));
                return Err(why);
            }
        };

        answers.tell(&Answer::Ready(self.run.grants().to_vec()));
        let Parts { mut body, figures, mut beside } = self.parts;
        self.run.recorder().count_also(figures);
        if self.causes {
            self.run.ask(Box::new(BenchAsWitness { answers: answers.clone(), explanations, windows }));
        }

        let blocks = Blocks { run: &mut self.run, load: &self.load, interruptions: &self.interruptions };
        let served = blocks.serve((body.as_mut(), beside.as_mut()), &orders, &answers);
        let told = served.and_then(|()| {
            beside.end().into_iter().try_for_each(|sentence| self.run.recorder().remark(sentence))?;
            Ok(())
        });

        let closed = told.and_then(|()| self.run.close().map(|_| ()));
        answers.tell(&closed.as_ref().map_or_else(|why| Answer::Failed(why.to_string()), |()| Answer::Closed));
        closed
    }
}

/// Orders are read on a thread of their own: their end must stop a block that runs.
fn listen(orders: impl io::Read + Send + 'static, interruptions: &Arc<Interruptions>) -> io::Result<Heard> {
    let (blocks, ordered) = mpsc::channel();
    let (explanations, explained) = mpsc::channel();
    let (windows, around) = mpsc::channel();
    let interruptions = Arc::clone(interruptions);
    let hear = move || {
        for line in BufReader::new(orders).lines().map_while(Result::ok) {
            let heard = match serde_json::from_str(&line) {
                Ok(Order::Block { index, releases }) => blocks.send((index, releases)).is_ok(),
                Ok(Order::Explained(explanation)) => explanations.send(explanation).is_ok(),
                Ok(Order::Window(window)) => windows.send(window).is_ok(),
                Err(_) => false,
            };
            if !heard {
                break;
            }
        }
        interruptions.stop.store(true, Ordering::Relaxed);
    };

    thread::Builder::new().name("onbeat-orders".to_owned()).spawn(hear)?;
    Ok((ordered, explained, around))
}

/// Runs blocks as they are ordered.
struct Blocks<'s> {
    run: &'s mut Run,
    load: &'s str,
    interruptions: &'s Interruptions,
}

impl Blocks<'_> {
    fn serve(
        self,
        (body, beside): (&mut dyn Body, &mut dyn Beside),
        orders: &Receiver<(u32, u64)>,
        answers: &Answers,
    ) -> Result<(), RunError> {
        while let Ok((index, releases)) = orders.recv() {
            let block = BlockPlan { index, load: self.load, releases };
            let mut look = |recorder: &mut Recorder| _ = beside.look(recorder);
            self.run.block(&block, body, self.interruptions, &mut look)?;
            beside.rest(self.run.recorder());
            let progress = self.run.recorder().progress();
            answers.tell(&Answer::Done(progress));
        }
        Ok(())
    }
}

/// Orders by their kind: blocks, explanations, and what ran around the cycles explained.
type Heard = (Receiver<(u32, u64)>, Receiver<Explanation>, Receiver<Option<KeptWindow>>);

/// The pipe to the bench, of which the run's witness has an end as well.
#[derive(Clone)]
struct Answers(Rc<RefCell<dyn Write>>);

impl Answers {
    fn to(pipe: impl Write + 'static) -> Self {
        Self(Rc::new(RefCell::new(pipe)))
    }

    /// A bench that does not listen any more has died; the end of the orders says so too, and ends the cell.
    fn tell(&self, answer: &Answer) {
        if let Ok(mut line) = serde_json::to_string(answer) {
            line.push('\n');
            let mut pipe = self.0.borrow_mut();
            let _ = pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush());
        }
    }
}

/// The bench's flight recorder, asked through the pipes: one for all cells, since opening one takes longer than a short
/// block.
struct BenchAsWitness {
    answers: Answers,
    explanations: Receiver<Explanation>,
    windows: Receiver<Option<KeptWindow>>,
}

impl Witness for BenchAsWitness {
    fn follow(&mut self, thread: LoopThread) {
        self.answers.tell(&Answer::Loop(thread));
    }

    fn keep_watch(&mut self) {
        // The bench does, for all its cells.
    }

    fn explain(&mut self, facts: &SpikeFacts) -> Option<Explanation> {
        self.answers.tell(&Answer::Late(*facts));
        // The end of the orders ends this too.
        self.explanations.recv().ok()
    }

    fn window(&mut self) -> Option<KeptWindow> {
        self.answers.tell(&Answer::Around);
        self.windows.recv().ok().flatten()
    }

    fn cost(&self) -> Cost {
        // It is the bench's, and in the bench's own file.
        Cost::default()
    }
}

/// A cell's process could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// It could not be started.
    #[error("cannot start a process for cell {cell}: {source}")]
    Start {
        /// Which cell.
        cell: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It said why it cannot go on.
    #[error("cell {cell}: {why}")]
    Failed {
        /// Which cell.
        cell: String,
        /// Its own words.
        why: String,
    },
    /// It went without a word.
    #[error("the process of cell {cell} ended unexpectedly ({status}); was it killed? What it recorded before is kept")]
    Gone {
        /// Which cell.
        cell: String,
        /// How it ended.
        status: String,
    },
}

/// The bench's end of the pipes.
pub struct CellProcess {
    name: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Answer>,
    grants: Vec<Grant>,
}

impl CellProcess {
    /// Starts `command` as a process group of its own, so that Ctrl-C reaches the bench alone, and waits until it is
    /// prepared.
    ///
    /// # Errors
    /// [`CellError`].
    pub fn start(name: &str, mut command: Command) -> Result<Self, CellError> {
        let failed = |source| CellError::Start { cell: name.to_owned(), source };
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().map_err(failed)?;
        let orders = child.stdin.take();
        let output = child.stdout.take();
        let (sender, answers) = mpsc::channel();
        let listen = move || {
            for line in output.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                if let Ok(answer) = serde_json::from_str::<Answer>(&line)
                    && sender.send(answer).is_err()
                {
                    break;
                }
            }
        };

        if let Err(why) = thread::Builder::new().name("onbeat-answers".to_owned()).spawn(listen) {
            // It has recorded nothing yet, and nobody would hear it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(why));
        }

        let mut cell = Self { name: name.to_owned(), child, orders, answers, grants: Vec::new() };
        match cell.answer(None)? {
            Some(Answer::Ready(grants)) => cell.grants = grants,
            Some(Answer::Failed(why)) => return Err(CellError::Failed { cell: name.to_owned(), why }),
            _ => return Err(cell.gone()),
        }

        Ok(cell)
    }

    /// What it was granted.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Orders a block; [`CellProcess::answer`] tells when it is over.
    ///
    /// # Errors
    /// [`CellError`], when the process is gone.
    pub fn order_block(&mut self, index: u32, releases: u64) -> Result<(), CellError> {
        self.order(&Order::Block { index, releases })
    }

    /// Answers [`Answer::Late`].
    ///
    /// # Errors
    /// [`CellError`], when the process is gone.
    pub fn explained(&mut self, explanation: Explanation) -> Result<(), CellError> {
        self.order(&Order::Explained(explanation))
    }

    /// Answers [`Answer::Around`].
    ///
    /// # Errors
    /// [`CellError`], when the process is gone.
    pub fn around(&mut self, window: Option<KeptWindow>) -> Result<(), CellError> {
        self.order(&Order::Window(window))
    }

    fn order(&mut self, order: &Order) -> Result<(), CellError> {
        let line = serde_json::to_string(order).unwrap_or_default() + "\n";
        let sent = self.orders.as_mut().map(|pipe| pipe.write_all(line.as_bytes()));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.gone()) }
    }

    /// The next answer; `None` when `wait` passed without one (no `wait`: for ever).
    ///
    /// # Errors
    /// [`CellError`], when the process is gone or said that it cannot go on.
    pub fn answer(&mut self, wait: Option<Duration>) -> Result<Option<Answer>, CellError> {
        let answer = match wait {
            Some(wait) => self.answers.recv_timeout(wait),
            None => self.answers.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(Answer::Failed(why)) => Err(CellError::Failed { cell: self.name.clone(), why }),
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Ends the orders and waits until the run file is closed.
    ///
    /// # Errors
    /// [`CellError`].
    pub fn close(mut self) -> Result<(), CellError> {
        self.orders = None;
        while self.answer(None)? != Some(Answer::Closed) {}
        let _ = self.child.wait();
        Ok(())
    }

    fn gone(&mut self) -> CellError {
        self.orders = None;
        let status = self.child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        CellError::Gone { cell: self.name.clone(), status }
    }
}
